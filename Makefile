# `make search` and `make test` do all the set-up: they need Python 3.11 or newer and nothing else.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: search test test-full examples lint format

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Optsmith needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

search: .venv/.installed
	@task=mnistnet; $(BIN)/optsmith data fetch mnist >/dev/null || { task=digits; \
	  echo "MNIST cannot be had here: searching on the digits that come with scikit-learn" >&2; }; \
	  echo optsmith search $$task; $(BIN)/optsmith search $$task

test: .venv/.installed lint
	$(BIN)/python -m pytest -n 2

test-full: .venv/.installed lint
	$(BIN)/python -m pytest -n 2 -m 'slow or not slow'

examples: .venv/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,huggingface,lightning]'
	$(BIN)/python examples/plain_pytorch.py
	$(BIN)/python examples/huggingface_trainer.py
	$(BIN)/python examples/lightning_module.py
	$(BIN)/python examples/your_module.py
	$(BIN)/python examples/your_loop.py
	$(BIN)/python examples/train_robust.py

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
