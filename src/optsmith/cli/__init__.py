"""The command line. Nothing here imports torch until a command needs it."""

from optsmith.cli._main import main

__all__ = ["main"]
