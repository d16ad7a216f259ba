"""
The bytes that planted code sets, one for each site: a file beside the tree, shared by all processes of a test.

Imported by every recorded process before zsched, so it imports little.
"""

import json
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

TREE = Path(__file__).parents[2]
SEEN, OF_SCRIPTS = TREE.parent / "seen", TREE.parent / "scripts.json"
SIZE = 1 << 16


def _shared() -> mmap.mmap | bytearray:
    if not SEEN.exists():
        return bytearray(SIZE)
    with SEEN.open("r+b") as file:
        return mmap.mmap(file.fileno(), SIZE)


seen = _shared()


def taken() -> list[int]:
    """Return the numbers of the sites that were executed since the last call."""
    text = bytes(seen[:])
    seen[:] = bytes(SIZE)
    return [at for at in range(SIZE) if text[at]] if any(text) else []


def noting(load: Any, source: Callable[[str], str]) -> tuple[Any, Callable[[str], str]]:
    """Return the two functions of ``zsched/storage/scripts.py``; they note the Lua files that a call needs."""
    numbers: dict[str, list[int]] = json.loads(OF_SCRIPTS.read_text()) if OF_SCRIPTS.exists() else {}

    def note(path: str) -> None:
        for number in numbers.get(path, ()):
            seen[number] = 1

    def noted_load(name: str, *more: Any) -> Any:
        note(f"{name}.lua")
        return load(name, *more)

    def noted_source(path: str) -> str:
        note(path)
        return source(path)

    noted_load.cache_clear = load.cache_clear  # type: ignore[attr-defined]  # tests call it
    return noted_load, noted_source
