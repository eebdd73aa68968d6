"""Records for the tests of the store."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from optsmith.storage._store import Record

# For scripts that other processes run: the store without its package, which imports torch.
ONLY_THE_STORE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from optsmith.storage._store import Store
from store_samples import sample
"""


def sample(index: int, *, level: int = 0, **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "candidate": f"{level}:{index}",
        "rule": f"ld*sign(m1) - {index + 1}*g",
        "fidelity": 1.0,
        "block": 0,
        "fixed_lr": None,
        "phase": f"level {level + 1}",
        "state": "ok",
        "score": 1.0 / (index + 1),
        "lr": 0.1 / (index + 1),
        "length": 5 + index % 7,
        "curve": tuple((step, 2.0 / (1 + step + index)) for step in range(0, 100, 10)),
        "data": {"status": "ok", "seconds": 1.5, "grid": [{"lr": 0.1, "score": 1 / 3}]},
    }
    return Record(**{**fields, **changes})


def varied(count: int) -> list[Record]:
    """Records of every state, at two levels."""
    records = []
    for i in range(count):
        record = sample(i // 2, level=i % 2)
        if i % 5 == 3:
            record = sample(i // 2, level=i % 2, state="pruned", score=None, curve=())
        elif i % 5 == 4:
            record = sample(i // 2, level=i % 2, state="failed", score=None, lr=None)
        records.append(record)
    return records


def large_data() -> dict[str, Any]:
    """An evaluation of more than 20 kB, with texts that databases trip over."""
    return {
        "status": "ok",
        "error": "π ≠ 3.14 \x00 ' \" \\ %s :name 🙂",
        "curve": [[i, math.sin(i)] for i in range(900)],
    }
