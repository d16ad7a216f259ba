"""Machines whose time zone data lacks most zones, as slim images have it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from unittest.mock import patch

_HAS = ("UTC", "Europe/Berlin")


@contextmanager
def slim_machine(folder: Path) -> Iterator[Path]:
    """
    Inside the block start processes that know UTC and Europe/Berlin only, from data called 2025x, with the yielded
    folder first in their PYTHONPATH.
    """
    data, code = folder / "zoneinfo", folder / "code"
    for name in _HAS:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes())
    (data / "tzdata.zi").write_text("# version 2025x\n")
    (code / "tzdata").mkdir(parents=True, exist_ok=True)
    (code / "tzdata/__init__.py").write_text("")  # in the place of the package of PyPI
    with patch.dict(os.environ, {"PYTHONTZPATH": str(data)}):
        yield code
