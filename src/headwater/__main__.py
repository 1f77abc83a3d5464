"""`python -m headwater`: the same command line as the installed `headwater`."""

import sys

from headwater.cli import main

if __name__ == "__main__":
    sys.exit(main())
