# `make search` and `make test` do all the set-up: they need Python 3.11 or newer and nothing else.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: search test test-full examples lint format

# What a search needs.
.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Optsmith needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "installing PyTorch and Optsmith into .venv, a minute or two on a fast network…" >&2
	@$(PYTHON) -m venv .venv
	@$(PIP) --editable '.[images]'
	@touch $@

# What the tests need besides.
.venv/.installed-dev: .venv/.installed
	@echo "installing the tools for tests into .venv…" >&2
	@$(PIP) --editable '.[dev]'
	@touch $@

search: .venv/.installed
	@task=mnistnet; $(BIN)/optsmith data fetch mnist >/dev/null || { task=digits; \
	  echo "MNIST is not available here: searching on the digits that come with scikit-learn" >&2; }; \
	  echo optsmith search $$task; $(BIN)/optsmith search $$task

test: .venv/.installed-dev lint
	$(BIN)/python -m pytest -n 2

test-full: .venv/.installed-dev lint
	$(BIN)/python -m pytest -n 2 -m 'slow or not slow'

examples: .venv/.installed
	@echo "installing the libraries of the examples into .venv…" >&2
	@$(PIP) --editable '.[huggingface,lightning]'
	$(BIN)/python examples/plain_pytorch.py
	$(BIN)/python examples/modern_rule.py
	$(BIN)/python examples/huggingface_trainer.py
	$(BIN)/python examples/lightning_module.py
	$(BIN)/python examples/your_module.py
	$(BIN)/python examples/your_loop.py
	$(BIN)/python examples/train_robust.py
	$(BIN)/python examples/observer.py

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
