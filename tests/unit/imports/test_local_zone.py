"""The zone of a process: TZ, then the machine's files."""

from pathlib import Path

import pytest

from zsched.errors import InvalidSchedule
from zsched.imports.found import local_zone


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
    assert name == local_zone({}, etc(tmp_path, link=link, text=text))[0]


def test_a_copied_zone_has_to_be_named(tmp_path: Path) -> None:
    etc(tmp_path).joinpath("etc/localtime").write_bytes(b"TZif2")

    with pytest.raises(InvalidSchedule, match=r"is a copy of an unknown zone; give --tz"):
        local_zone({}, tmp_path)


def test_a_copied_zone_has_its_name_in_etc_timezone(tmp_path: Path) -> None:
    etc(tmp_path, text="Asia/Seoul\n").joinpath("etc/localtime").write_bytes(b"TZif2")

    assert ("Asia/Seoul", str(tmp_path / "etc/timezone")) == local_zone({}, tmp_path)


@pytest.mark.parametrize("name", ["EST", "posixrules"])
def test_an_unknown_zone_of_the_machine_must_be_given(tmp_path: Path, name: str) -> None:
    etc(tmp_path, link=f"/usr/share/zoneinfo/{name}", text="Asia/Seoul\n")

    with pytest.raises(InvalidSchedule, match=rf"tz='{name}': .*; give --tz"):
        local_zone({}, tmp_path)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Asia/Tokyo", "Asia/Tokyo"),
        (":Asia/Tokyo", "Asia/Tokyo"),
        ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        (":/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        ("", "UTC"),
        ("UTC", "UTC"),
    ],
)
def test_the_variable_tz_comes_before_the_zone_of_the_machine(tmp_path: Path, text: str, name: str) -> None:
    root = etc(tmp_path, link="/usr/share/zoneinfo/Europe/Berlin")

    assert (name, f"TZ={text}") == local_zone({"TZ": text}, root)


def test_a_variable_tz_that_names_the_machines_file_leads_to_it(tmp_path: Path) -> None:
    root = etc(tmp_path, link="/usr/share/zoneinfo/Europe/Berlin")

    assert {"Europe/Berlin"} == {local_zone({"TZ": text}, root)[0] for text in ("/etc/localtime", ":/etc/localtime")}


@pytest.mark.parametrize("text", ["JST-9", "EST5EDT", ":", "/opt/zones/mine", "Asia/Tokio"])
def test_a_variable_tz_that_names_no_zone_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidSchedule, match=rf"\(by TZ={text}\); give --tz"):
        local_zone({"TZ": text}, tmp_path)
