"""Zone names, the changes of zones, single local times, and the version of the tz database in use."""

import sys
import zoneinfo
from datetime import datetime
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import tzdata

from tests.unit.core.triggers.oracle import ZONES, ms, tzif_changes
from zsched.core.triggers import zones
from zsched.core.triggers.spec import Fold, Gap
from zsched.core.triggers.zones import offset_changes, resolve_local, zone
from zsched.errors import InvalidSchedule
from zsched.zone_rules import PACKAGE, ZoneRules, installed


@pytest.mark.parametrize("name", [*ZONES, "Etc/GMT+5", "Etc/UTC", "GMT", "Japan", "America/Argentina/Buenos_Aires"])
def test_iana_names_are_accepted(name):
    assert name == zone(name).key


SUGGESTED = {
    "America/New_York": ["EST", "EST5EDT", "posixrules", "america/new york", "EST5EDT,M3.2.0,M11.1.0"],
    "America/Chicago": ["CST6CDT"],
    "America/Denver": ["MST"],
    "America/Los_Angeles": ["PST"],
    "Europe/Berlin": ["CET"],
    "UTC": ["localtime", "Factory", "posix/UTC", "utc"],
    "Europe/London": ["right/Europe/London", "Europe/Londn", "london"],
    "an IANA name": ["Nowhere", "../../etc/passwd", "", "x" * 100_000, None, 5],
    '"Asia/Seoul" if that is meant': ["KST"],
    "Asia/Seoul": ["kst"],
    '"America/Chicago", "America/Mexico_City", "Asia/Shanghai" or "Asia/Taipei"': ["CST"],
    "Asia/Kolkata": ["IST"],
    '"Etc/GMT-2" for this offset all year': ["+02:00"],
    '"Etc/GMT-9" for this offset': ["UTC+9"],
    '"Etc/GMT+5" for this offset': ["gmt-0500", "EST5"],
    "name the place": ["+05:30", "+99:00"],
    '"America/New_York"': ["EST+5"],
    '"Asia/Tokyo" if that is meant, or "Etc/GMT-9"': ["JST-9"],
}


@pytest.mark.parametrize(
    ("name", "suggested"), [(name, suggested) for suggested, names in SUGGESTED.items() for name in names]
)
def test_other_names_are_refused_with_a_suggestion(name, suggested):
    with pytest.raises(InvalidSchedule) as caught:
        zone(name, field="zone")

    assert "zone" == caught.value.field
    assert name is caught.value.value
    assert suggested in caught.value.remedy
    assert len(str(caught.value)) < 400


def test_every_zone_that_a_refusal_names_is_accepted():
    names = {meant for names in zones._MEANT.values() for meant in names.split()}

    assert names == {zone(name).key for name in names}


@pytest.mark.parametrize("name", [*ZONES, "Africa/Freetown", "America/Noronha", "Asia/Gaza", "America/Scoresbysund"])
def test_every_change_of_a_zone_is_found_to_the_second(name):
    for first, last in (("1935-01-01", "1950-01-01"), ("1999-01-01", "2026-01-01")):
        expected = [change for change in tzif_changes(name) if ms(first) < change[0] * 1000 <= ms(last)]

        found = [tuple(change) for change in offset_changes(ZoneInfo(name), ms(first) // 1000, ms(last) // 1000)]
        assert expected == [change for change in found if expected and change[0] <= expected[-1][0]]


def test_two_changes_of_a_zone_are_further_apart_than_the_search_needs():
    for name in zoneinfo.available_timezones():
        found = tzif_changes(name)
        for (at_s, before, after), (next_s, _, back) in pairwise(found):
            assert next_s - at_s > 2 * max(abs(after - before), abs(back - after)), name
            assert next_s - at_s > 2 * 86_400 or back != before, name


SPRING, AUTUMN = datetime(2026, 3, 8, 2, 30), datetime(2026, 11, 1, 1, 30)


@pytest.mark.parametrize(
    ("local", "name", "gap", "fold", "expected"),
    [
        (datetime(2026, 6, 1, 9), "America/New_York", Gap.SKIP, Fold.FIRST, ["2026-06-01T13:00"]),
        (SPRING, "America/New_York", Gap.FIRST_VALID, Fold.FIRST, ["2026-03-08T07:00"]),
        (SPRING, "America/New_York", Gap.SHIFT, Fold.FIRST, ["2026-03-08T07:30"]),
        (SPRING, "America/New_York", Gap.SKIP, Fold.FIRST, []),
        (AUTUMN, "America/New_York", Gap.SHIFT, Fold.FIRST, ["2026-11-01T05:30"]),
        (AUTUMN, "America/New_York", Gap.SHIFT, Fold.SECOND, ["2026-11-01T06:30"]),
        (AUTUMN, "America/New_York", Gap.SHIFT, Fold.BOTH, ["2026-11-01T05:30", "2026-11-01T06:30"]),
        (datetime(2024, 10, 6, 2, 15), "Australia/Lord_Howe", Gap.FIRST_VALID, Fold.FIRST, ["2024-10-05T15:30"]),
        (datetime(2024, 10, 6, 2, 15), "Australia/Lord_Howe", Gap.SHIFT, Fold.FIRST, ["2024-10-05T15:45"]),
        (datetime(2024, 4, 7, 1, 45), "Australia/Lord_Howe", Gap.SHIFT, Fold.SECOND, ["2024-04-06T15:15"]),
        (datetime(2011, 12, 30, 9), "Pacific/Apia", Gap.FIRST_VALID, Fold.FIRST, ["2011-12-30T10:00"]),
        (datetime(2011, 12, 30, 9), "Pacific/Apia", Gap.SHIFT, Fold.FIRST, ["2011-12-30T19:00"]),
        (datetime(2011, 12, 30), "Pacific/Apia", Gap.FIRST_VALID, Fold.FIRST, ["2011-12-30T10:00"]),
        (datetime(2011, 12, 30, 23, 59, 59), "Pacific/Apia", Gap.FIRST_VALID, Fold.FIRST, ["2011-12-30T10:00"]),
        (datetime(9999, 12, 31, 23, 59), "Pacific/Honolulu", Gap.SHIFT, Fold.FIRST, None),
    ],
)
def test_a_local_time_is_resolved_as_chosen(local, name, gap, fold, expected):
    found = resolve_local(local, ZoneInfo(name), gap, fold)

    if expected is None:  # beyond what a datetime in UTC can say: an instant all the same
        assert [253_402_336_740_000] == found
    else:
        assert [ms(text) for text in expected] == found


def test_a_local_time_keeps_its_milliseconds():
    local = datetime(2026, 1, 1, 0, 0, 0, 250_999)

    assert [ms("2026-01-01") + 250] == resolve_local(local, zone("UTC"), Gap.SKIP, Fold.FIRST)


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


def test_the_first_folder_with_zones_counts_whatever_later_folders_have_or_the_package(tmp_path: Path) -> None:
    empty, first, second = (tmp_path / name for name in ("empty", "first", "second"))
    folders = [str(tmp_path / "none"), folder(empty), folder(first, zone="TZif2"), folder(second, zi="# version 2025b")]

    assert ZoneRules(None, str(first)) == installed(folders)
    assert ZoneRules("2025b", str(second)) == installed([folders[0], folders[3], folders[2]])
    assert ZoneRules(tzdata.IANA_VERSION, PACKAGE) == installed(folders[1:2])


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
