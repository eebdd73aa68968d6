"""`python -m optsmith` is the command `optsmith`."""

from optsmith.cli import main

if __name__ == "__main__":
    main()
