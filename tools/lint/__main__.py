"""The command of the lint rules: exit code 1 after a finding."""

from __future__ import annotations

import sys

from tools.lint import timing, wording

if __name__ == "__main__":
    sys.exit(timing.main([]) | wording.main())
