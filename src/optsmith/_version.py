"""The version of the package, for the build and `optsmith --version`."""

__version__ = "0.1.0"
