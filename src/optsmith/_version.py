"""The version, read by the build and by `optsmith --version`."""

__version__ = "0.1.0"
