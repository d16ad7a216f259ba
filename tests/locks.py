"""The packages that ``make install`` takes: their versions and hashes, in deploy/requirements."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from tests.documents import PROJECT

LOCKS: Final = sorted((PROJECT / "deploy" / "requirements").glob("*.txt"))
_LINE: Final = re.compile(r"([\w.-]+)==([\w.]+)(?: ; [^#]+?)? +(?:--hash=sha256:[0-9a-f]{64} *)+")


def pins(lock: Path) -> dict[str, str]:
    """Return the version of each package in *lock*, by its normalized name. Each line must be a pin with hashes."""
    found = [_LINE.fullmatch(line) for line in lock.read_text().replace("\\\n", "").splitlines()]
    assert all(found), lock
    return {canonicalize_name(one[1]): one[2] for one in found if one}
