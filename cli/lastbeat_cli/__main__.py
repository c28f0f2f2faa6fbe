"""``python -m lastbeat_cli`` is ``lastbeat``."""

import sys

from lastbeat_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
