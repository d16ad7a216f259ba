"""The lint rules of our own, for `make lint`: each file is parsed once."""

from __future__ import annotations

import sys

from tests import timing, wording

if __name__ == "__main__":
    sys.exit(timing.main([]) | wording.main())
