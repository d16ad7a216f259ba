"""Which zone this machine's cron goes by."""

from __future__ import annotations

from pathlib import Path

import pytest

from zsched.errors import InvalidSchedule
from zsched.imports.machine import machine_zone


def etc(root: Path, *, link: str = "", text: str = "") -> Path:
    (root / "etc").mkdir()
    if link:
        (root / "etc/localtime").symlink_to(link)
    if text:
        (root / "etc/timezone").write_text(text)
    return root


@pytest.mark.parametrize(
    ("link", "text", "name"),
    [
        ("/usr/share/zoneinfo/Europe/Berlin", "", "Europe/Berlin"),
        ("../usr/share/zoneinfo/America/Argentina/Ushuaia", "", "America/Argentina/Ushuaia"),
        ("", "Asia/Seoul\n", "Asia/Seoul"),
        ("/usr/share/zoneinfo/Europe/Berlin", "Asia/Seoul\n", "Asia/Seoul"),  # cron(8): /etc/timezone, if it is there
        ("/usr/share/zoneinfo/Europe/Berlin", "nowhere\n", "Europe/Berlin"),
        ("", "", "UTC"),
    ],
)
def test_the_zone_is_that_of_cron(tmp_path: Path, link: str, text: str, name: str) -> None:
    assert name == machine_zone(etc(tmp_path, link=link, text=text)).name


def test_a_copied_zone_has_to_be_named(tmp_path: Path) -> None:
    etc(tmp_path).joinpath("etc/localtime").write_bytes(b"TZif2")

    with pytest.raises(InvalidSchedule, match=r"is a copy of a zone .*; give --tz"):
        machine_zone(tmp_path)


def test_a_zone_that_is_none_has_to_be_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSchedule, match=r"tz='EST': .*; give --tz"):
        machine_zone(etc(tmp_path, text="EST\n"))
