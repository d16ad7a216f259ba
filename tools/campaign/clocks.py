"""Faults of the clock: Redis's clock jumps by an hour. They need a redis-server with a movable clock (``--clock``)."""

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.documents import PROJECT
from tools.campaign.server import SHIM_VARIABLE
from tools.campaign.stage import Stage

_HOUR_MS = 3_600_000
_SOURCE = PROJECT / "tests" / "faults" / "clock_skew.c"
_VARIABLE = "SKEW_FILE"
_JUMP_S = 1.5  # less than the two seconds after which a daemon takes the new time for the right one


@contextmanager
def movable(folder: Path) -> Iterator[None]:
    """Give servers started inside the block a clock that ``skew`` moves. Needs gcc."""
    if shutil.which("gcc") is None:
        raise FileNotFoundError("--clock needs gcc: apt install gcc")
    built, file = folder / "clock_skew.so", folder / "skew"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", str(built), str(_SOURCE)], check=True)
    file.write_bytes(struct.pack("l", 0))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(_VARIABLE, str(file))
        environment.setenv(SHIM_VARIABLE, str(built))
        yield


def forth(stage: Stage, rng: random.Random) -> None:
    _jump(stage, _HOUR_MS)


def back(stage: Stage, rng: random.Random) -> None:
    _jump(stage, -_HOUR_MS)


def _jump(stage: Stage, ms: int) -> None:
    skew(ms)
    stage.wait(_JUMP_S)
    skew(0)
    stage.wait(3.0)


def skew(ms: int) -> None:
    """Set Redis's clock *ms* off from now on."""
    with Path(os.environ[_VARIABLE]).open("r+b") as file:
        file.write(struct.pack("l", ms))
