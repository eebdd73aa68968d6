"""Screening: checks and fingerprints of rules that need no training."""

from optsmith.screening._limits import state_bytes_of, step_cost_of
from optsmith.screening._screen import Screen, Screening, agree, screen

__all__ = ["Screen", "Screening", "agree", "screen", "state_bytes_of", "step_cost_of"]
