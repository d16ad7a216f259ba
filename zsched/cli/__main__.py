"""``python -m zsched.cli``: the command line where no script is installed."""

import sys

from zsched.cli import main

sys.exit(main())
