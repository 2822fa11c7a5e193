"""`python -m winze` is `winze`."""

import sys

from winze.cli import main

if __name__ == "__main__":
    sys.exit(main())
