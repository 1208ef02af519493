"""``python -m gelato`` is the command ``gelato``."""

from gelato.cli import main

if __name__ == "__main__":
    main()
