"""``python -m whippletree.cli``."""

import sys

from whippletree.cli import main

if __name__ == "__main__":
    sys.exit(main())
