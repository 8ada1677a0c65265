"""`python -m oomproof`, and the program `oomproof` of the installed package."""

from __future__ import annotations

import sys

from oomproof._command import main

if __name__ == "__main__":
    sys.exit(main())
