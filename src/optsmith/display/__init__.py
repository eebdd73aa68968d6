"""Progress of a running search: in a terminal, in a notebook, or as plain lines."""

from optsmith.display._choose import Observers, make_display, watching

__all__ = ["Observers", "make_display", "watching"]
