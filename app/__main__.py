"""`python -m tracetui.app`."""

import sys

from tracetui.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
