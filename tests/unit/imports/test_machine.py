"""The zone that this machine's cron uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from zsched.errors import InvalidSchedule
from zsched.imports.crontab import machine_zone


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
        ("/usr/share/zoneinfo/Europe/Berlin", "Asia/Seoul\n", "Europe/Berlin"),  # cron reads no /etc/timezone
        ("", "Asia/Seoul\n", "UTC"),
        ("", "", "UTC"),
    ],
)
def test_the_zone_of_the_machine_is_the_zone_that_cron_uses(tmp_path: Path, link: str, text: str, name: str) -> None:
    assert name == machine_zone(etc(tmp_path, link=link, text=text)).name


def test_a_copied_zone_has_to_be_named(tmp_path: Path) -> None:
    etc(tmp_path).joinpath("etc/localtime").write_bytes(b"TZif2")

    with pytest.raises(InvalidSchedule, match=r"is a copy of a zone .*; give --tz"):
        machine_zone(tmp_path)


def test_a_copied_zone_has_its_name_in_etc_timezone(tmp_path: Path) -> None:
    etc(tmp_path, text="Asia/Seoul\n").joinpath("etc/localtime").write_bytes(b"TZif2")

    assert ("Asia/Seoul", str(tmp_path / "etc/timezone")) == machine_zone(tmp_path)


@pytest.mark.parametrize("name", ["EST", "posixrules"])
def test_an_unknown_zone_of_the_machine_must_be_given(tmp_path: Path, name: str) -> None:
    etc(tmp_path, link=f"/usr/share/zoneinfo/{name}", text="Asia/Seoul\n")

    with pytest.raises(InvalidSchedule, match=rf"tz='{name}': .*; give --tz"):
        machine_zone(tmp_path)
