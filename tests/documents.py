"""The project's pages and the programs in them, which tests run like a reader."""

import re
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[1]
LOCKS: Final = sorted((PROJECT / "deploy" / "requirements").glob("*.txt"))
_LINE: Final = re.compile(r"([\w.-]+)==([\w.]+)(?: ; [^#]+?)? +(?:--hash=sha256:[0-9a-f]{64} *)+")


def pages() -> list[Path]:
    """Return every page that a reader may open."""
    beside = [page for place in (".", "deploy/redis", "examples") for page in (PROJECT / place).glob("*.md")]
    return sorted([*beside, *(PROJECT / "docs").rglob("*.md")])


def programs(page: str) -> dict[str, str]:
    """
    Return the Python and TOML files in *page* by their names.

    A block with such a file begins with a comment that names it: ``# shop.py``, or ``# tasks.py: what workers run``. A
    later block with the same name continues the file.
    """
    blocks = re.findall(r"^```(?:python|toml)\n(.*?)^```", (PROJECT / page).read_text(), re.DOTALL | re.MULTILINE)
    files: dict[str, str] = {}
    for block in blocks:
        parts = re.split(r"^# (\w+\.(?:py|toml))\b.*\n", block, flags=re.MULTILINE)
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            files[name] = f"{files[name]}\n\n{text}" if name in files else text
    return files


def pins(lock: Path) -> dict[str, str]:
    """
    Return the version of each package in *lock*, which ``make install`` takes, by its normalized name. Each line must
    be a pin with hashes.
    """
    found = [_LINE.fullmatch(line) for line in lock.read_text().replace("\\\n", "").splitlines()]
    assert all(found), lock
    return {canonicalize_name(one[1]): one[2] for one in found if one}
