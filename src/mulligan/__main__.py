"""`python -m mulligan` is the command `mulligan`."""

from mulligan.cli import main

if __name__ == "__main__":
    main()
