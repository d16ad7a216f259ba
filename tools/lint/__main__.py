"""The command of the lint rules: exit code 1 after a finding."""

import gc
import sys

from tools import lines
from tools.lint import timing, wording

if __name__ == "__main__":
    gc.disable()  # a collection looks at each of the million nodes of syntax again, and finds nothing
    sys.exit(timing.main([]) | wording.main() | lines.main())
