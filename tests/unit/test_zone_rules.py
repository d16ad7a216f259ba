"""The version of the tz database in use: that of the first folder with zones, like zoneinfo."""

from __future__ import annotations

import sys
import zoneinfo
from importlib import import_module
from pathlib import Path

import pytest
import tzdata

from zsched.zone_rules import PACKAGE, ZoneRules, installed


def folder(path: Path, **files: str) -> str:
    path.mkdir()
    for name, text in files.items():
        (path / {"zi": "tzdata.zi", "apple": "+VERSION", "zone": "UTC"}[name]).write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"zi": "# version 2025b\n# This zic input file is in the public domain.\n"}, "2025b"),
        ({"zi": "# version 2024b-dirty\n", "zone": "TZif2"}, "2024b-dirty"),
        ({"apple": "2025b\n", "zone": "TZif2"}, "2025b"),
        ({"zi": "# version 2025c\n", "apple": "2025b\n"}, "2025c"),
        ({"zone": "TZif2"}, None),
        ({"zi": "# version \n"}, None),
        ({"zi": "\x00" * 1000}, None),
        ({"zi": "# version 2025b and " + "more " * 50}, None),
        ({"zi": ""}, None),
    ],
)
def test_the_version_of_a_folder_of_zones_is_read(tmp_path: Path, files: dict[str, str], version: str | None) -> None:
    path = folder(tmp_path / "zones", **files)

    assert ZoneRules(version, path) == installed([path])


def test_the_first_folder_with_zones_counts_whatever_later_folders_have(tmp_path: Path) -> None:
    empty, first, second = (tmp_path / name for name in ("empty", "first", "second"))
    folders = [str(tmp_path / "none"), folder(empty), folder(first, zone="TZif2"), folder(second, zi="# version 2025b")]

    assert ZoneRules(None, str(first)) == installed(folders)
    assert ZoneRules("2025b", str(second)) == installed([folders[0], folders[3], folders[2]])


def test_zone_rules_come_from_the_package_if_the_machine_has_none(tmp_path: Path) -> None:
    assert ZoneRules(tzdata.IANA_VERSION, PACKAGE) == installed([folder(tmp_path / "empty")])


def install(path: Path, version: str) -> None:
    """Install the package tzdata of *version* in the folder *path*, replacing the existing one."""
    zones = path / "tzdata" / "zoneinfo"
    zones.mkdir(parents=True, exist_ok=True)
    (path / "tzdata" / "__init__.py").write_text(f'IANA_VERSION = "{version}"\n')
    (zones / "tzdata.zi").write_text(f"# version {version}\n# This zic input file is in the public domain.\n")


def test_a_package_replaced_under_a_running_process_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "2025a")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tzdata")
    assert "2025a" == import_module("tzdata").IANA_VERSION  # as zoneinfo does for the first zone that it reads
    before = installed([])

    install(tmp_path, "2025b")

    assert (ZoneRules("2025a", PACKAGE), ZoneRules("2025b", PACKAGE)) == (before, installed([]))


def test_a_package_without_its_file_has_an_unknown_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "2025a")
    (tmp_path / "tzdata" / "zoneinfo" / "tzdata.zi").unlink()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tzdata")

    assert ZoneRules(None, PACKAGE) == installed([])


def test_a_machine_without_zones_has_zone_rules_from_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tzdata", None)

    assert ZoneRules(None, "nowhere") == installed([])


def test_zone_rules_are_found_where_zoneinfo_looks(tmp_path: Path) -> None:
    before = zoneinfo.TZPATH
    try:
        zoneinfo.reset_tzpath([folder(tmp_path / "zones", zi="# version 1999z")])
        assert "1999z" == installed().version
    finally:
        zoneinfo.reset_tzpath(before)


def test_the_text_of_zone_rules_has_version_and_place() -> None:
    assert "2025b, from /zones" == str(ZoneRules("2025b", "/zones"))
    assert "of an unknown version, from /zones" == str(ZoneRules(None, "/zones"))
