"""`python -m skyband` is the command `skyband`."""

from skyband.cli import main

if __name__ == "__main__":
    main()
