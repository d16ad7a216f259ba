"""
The rules of the zones that this machine has: which version of the tz database ``zoneinfo`` reads, and from where.

``zoneinfo`` looks for a zone in the folders of its path first (the system's, or those of PYTHONTZPATH), and only then
in the package tzdata of PyPI: Debian's data shadows a newer package. So the first folder that has zones says which
version counts. A process keeps the zones that it has read, so what counts for it is what was there when it started.

The version is always read from a file: the package's ``IANA_VERSION`` would be that of the package which this process
has imported, whatever was installed since.

Not guaranteed: that all zones are of that version, where the folders of the path are of several, or where the data is
exchanged under a running process: it reads a zone when that is first asked for. Of a package in a zip file the version
is not known.
"""

import re
import zoneinfo
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

PACKAGE: Final = "the package tzdata"
_FILES: Final = ("tzdata.zi", "+VERSION")  # whose first line says the version: IANA's and Debian's, BSD's and Apple's
_ZONES: Final = ("UTC", "Etc/UTC")  # which every folder of zones has
_VERSION: Final = re.compile(r"(?:# version )?([0-9]{4}[0-9a-zA-Z._+-]{1,40})\s*")
_LINE: Final = 200  # characters that are read


class ZoneRules(NamedTuple):
    """One version of the tz database, as ``2025b``, and where it is; None: ``source`` does not say which it is."""

    version: str | None
    source: str

    def __str__(self) -> str:
        """``2025b, from /usr/share/zoneinfo``."""
        return f"{self.version or 'of an unknown version'}, from {self.source}"


def installed(folders: Iterable[str] | None = None) -> ZoneRules:
    """The rules that a process which starts now plans by; *folders*: where zoneinfo looks, unless given."""
    for folder in map(Path, zoneinfo.TZPATH if folders is None else folders):
        files = [folder / name for name in _FILES]
        if any(path.is_file() for path in (*files, *(folder / name for name in _ZONES))):
            return ZoneRules(next((found for path in files if (found := _version_in(path))), None), str(folder))
    package = find_spec("tzdata")
    if package is None or package.origin is None:
        return ZoneRules(None, "nowhere")
    return ZoneRules(_version_in(Path(package.origin).parent / "zoneinfo" / "tzdata.zi"), PACKAGE)


def _version_in(path: Path) -> str | None:
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        if found := _VERSION.fullmatch(file.readline(_LINE)):
            return found[1]
    return None
