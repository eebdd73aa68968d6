"""Screening: what can be known of a rule before any training."""

from optsmith.screening._screen import Screen, Screening, agree, screen

__all__ = ["Screen", "Screening", "agree", "screen"]
