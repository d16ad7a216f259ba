"""``config/schedules.toml``: an example that is valid and complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.files.ground import CHECKS
from zsched.core.options import SCHEDULE_OPTIONS
from zsched.files.checking import JSON_KEYS, REFUSED
from zsched.files.reading import read
from zsched.storage import rqjob

EXAMPLE = Path(__file__).parents[3] / "config" / "schedules.toml"
COMMENTED = re.compile(r"^#(\w+) = .*$", re.MULTILINE)


def test_the_example_is_read_without_mistakes() -> None:
    file = read("schedules.toml", EXAMPLE.read_bytes(), CHECKS)

    assert ("example", ["digest", "heartbeat", "report-monthly", "everything"]) == (
        file.owner,
        [entry.id for entry in file.entries],
    )


def test_the_example_shows_every_key() -> None:
    text = EXAMPLE.read_text()

    shown = set(re.findall(r"^#?(\w+) = ", text, re.MULTILINE)) - {"owner"}

    expected = (SCHEDULE_OPTIONS - REFUSED.keys()) | {"func"} | {f"{name}_json" for name in JSON_KEYS}
    assert expected == shown


@pytest.mark.parametrize("line", [match.group() for match in COMMENTED.finditer(EXAMPLE.read_text())])
def test_every_commented_key_of_the_example_is_valid(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rqjob, "HAS_RATE_LIMITS", True)  # RQ 2 has none
    text = EXAMPLE.read_text().replace(f"\n{line}\n", f"\n{line[1:]}\n")

    read("schedules.toml", text.encode(), CHECKS)

    assert f"\n{line[1:]}\n" in text
