"""Screening: what can be known of a rule before any training."""

from optsmith.screening._screen import Screen, Screening, screen

__all__ = ["Screen", "Screening", "screen"]
