"""Imports Optuna without a warning that does not concern its use here."""

import warnings

with warnings.catch_warnings():
    # In a notebook without widgets, Optuna's progress bar warns when it is imported.
    warnings.filterwarnings("ignore", "IProgress not found")
    import optuna

__all__ = ["optuna"]
