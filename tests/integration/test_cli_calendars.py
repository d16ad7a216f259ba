"""``zsched calendars``, and the calendars of a file, against a real Redis."""

from pathlib import Path

import pytest

from tests.builders import command_line
from zsched.cli.program import DONE, NOT_FOUND, USAGE
from zsched.client import Client
from zsched.core.wording import plural

pytestmark = pytest.mark.once

TICK = '[schedules.tick]\nfunc = "app.tasks.run"\ncron = "0 9 * * *"\nexclude = ["kr"]\n'
KR = '[calendars.kr]\ndates = ["2030-09-11..2030-09-13 Chuseok"]\n'
ICS = """BEGIN:VCALENDAR
BEGIN:VEVENT
UID:1
DTSTART;VALUE=DATE:20301003
RRULE:FREQ=YEARLY
SUMMARY:National Foundation Day
END:VEVENT
BEGIN:VTODO
SUMMARY:buy a cake
END:VTODO
END:VCALENDAR
"""


@pytest.fixture
def zsched(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> command_line.Zsched:
    monkeypatch.chdir(tmp_path)
    return command_line.Zsched(redis_url)


def apply(zsched: command_line.Zsched, text: str, *arguments: str) -> tuple[int, str, str]:
    Path("jobs.toml").write_text(text)
    done = zsched("apply", "jobs.toml", *arguments)
    return done.exit_code, done.stdout, done.stderr


def test_put_show_list_and_delete_name_the_calendar_and_its_schedules(
    zsched: command_line.Zsched, client: Client
) -> None:
    put = zsched("calendars", "put", "kr", "--date", "2030-09-11..2030-09-13 Chuseok", "--window", "Sat,Sun")
    again = zsched("calendars", "put", "kr", "--date", "2030-09-11..2030-09-13  Chuseok", "--window", "Sat,Sun")
    client.schedule("app.tasks.run", id="tick", cron="0 9 * * *", exclude=["kr"])
    shown = zsched("calendars", "show", "kr")
    [listed] = zsched.json("calendars", "list")
    refused = zsched("calendars", "delete", "kr")
    client.cancel("tick")
    deleted = zsched("calendars", "delete", "kr")

    assert ("kr: created\n", "kr: unchanged\n") == (put.stdout, again.stdout)
    assert '[calendars.kr]\ndates = ["2030-09-11..2030-09-13 Chuseok"]\nwindows = ["Sat,Sun"]\n' == shown.stdout
    assert ("kr", 1, None) == (listed["name"], listed["schedules"], listed["owner"])
    assert listed["next_at"]
    assert (USAGE, True) == (refused.exit_code, "named by 1 schedule: tick" in refused.stderr)
    assert (DONE, "kr: deleted\n") == (deleted.exit_code, deleted.stdout)
    assert NOT_FOUND == zsched("calendars", "delete", "kr").exit_code == zsched("calendars", "show", "kr").exit_code
    assert "has no calendar" in zsched("calendars", "list").stdout


def test_put_reads_an_ics_file_and_names_what_it_leaves_out(zsched: command_line.Zsched, client: Client) -> None:
    Path("kr.ics").write_text(ICS)

    put = zsched("calendars", "put", "kr", "--ics", "kr.ics")

    assert ("kr: created\n", "zsched: left out of kr.ics: 1 × VTODO\n") == (put.stdout, put.stderr)
    assert ["2030-10-03/1d FREQ=YEARLY National Foundation Day"] == client.calendars()["kr"]["events"]


def test_apply_puts_the_calendars_of_a_file_before_its_schedules(zsched: command_line.Zsched, client: Client) -> None:
    Path("kr.ics").write_text(ICS)
    dry = apply(zsched, TICK + KR + 'ics = "kr.ics"\n', "--dry-run")
    assert {} == client.calendars()
    first = apply(zsched, TICK + KR + 'ics = "kr.ics"\n')
    second = apply(zsched, TICK + KR.replace("11..", "12.."))
    third = apply(zsched, TICK + KR.replace("11..", "12.."))

    assert dry[1].startswith("calendar kr: created\ntick: created\n")
    assert first[1].startswith("calendar kr: created\ntick: created, next ")
    assert "calendar kr: left out of its .ics: 1 × VTODO" in first[2]
    assert [
        "calendar kr: updated",
        "  dates: 2030-09-11..2030-09-13 Chuseok → 2030-09-12..2030-09-13 Chuseok",
        "  events: 2030-10-03/1d FREQ=YEARLY National Foundation Day → -",
    ] == second[1].splitlines()[:3]
    assert "0 created, 0 updated, 1 unchanged, 0 removed\n" == third[1]
    assert "file:jobs.toml" == client.calendars()["kr"]["owner"]


def test_prune_removes_the_calendars_that_the_file_lacks_unless_schedules_name_them(
    zsched: command_line.Zsched, client: Client
) -> None:
    apply(zsched, TICK + KR)
    client.put_calendar("us", dates=["07-04"])
    kept = apply(zsched, "[schedules]\n")
    dry = apply(zsched, "[schedules]\n", "--prune", "--dry-run")
    client.schedule("app.tasks.run", id="other", cron="0 9 * * *", exclude=["kr"])
    refused = apply(zsched, "[schedules]\n", "--prune")
    client.cancel("other")
    pruned = apply(zsched, "[schedules]\n", "--prune")

    assert "calendar kr: stale: no longer in this file; --prune removes it" in kept[1]
    assert "calendar kr: removed" in dry[1]
    assert (1, True) == (refused[0], "named by 1 schedule: other" in refused[2])
    assert (0, True) == (pruned[0], "calendar kr: removed" in pruned[1])
    assert ["us"] == list(client.calendars())


def test_a_calendar_of_another_owner_is_refused_unless_the_file_takes_over(
    zsched: command_line.Zsched, client: Client
) -> None:
    client.put_calendar("kr", dates=["01-01"])
    refused = apply(zsched, KR + TICK)
    taken = apply(zsched, KR + TICK, "--take-over")

    assert USAGE == refused[0]
    assert "jobs.toml:1: [calendars.kr]: name='kr': it exists and is owned by nobody" in refused[2]
    assert "--take-over makes it this file's" in refused[2]
    assert "  owner: - → file:jobs.toml" in taken[1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[calendars.kr]\ndates = ["2030-13-01"]\n' + TICK, "jobs.toml:2: [calendars.kr]: dates='2030-13-01': no such"),
        ('[calendars.kr]\nics = "none.ics"\n' + TICK, "jobs.toml:2: [calendars.kr]: ics='none.ics': "),
        ('[calendars.kr]\ndays = ["01-01"]\n' + TICK, "jobs.toml:2: [calendars.kr]: days="),
        ('[calendars.Mon]\ndates = ["01-01"]\n[schedules]\n', "jobs.toml:1: [calendars.Mon]: name='Mon': not the name"),
        ("calendars = 3\n[schedules]\n", "jobs.toml:1: not tables; write [calendars.<name>]"),
        (TICK, "jobs.toml:4: [schedules.tick]: exclude='kr': no calendar of this namespace; put it first"),
        (
            TICK.replace("kr", "25:00-26:00"),
            "jobs.toml:4: [schedules.tick]: exclude='25:00-26:00': no such day or time",
        ),
    ],
)
def test_a_mistake_in_a_calendar_of_a_file_has_its_line_and_is_reported_once(
    zsched: command_line.Zsched, text: str, says: str
) -> None:
    code, _, complaints = apply(zsched, text)

    assert (USAGE, True) == (code, says in complaints)
    assert f"nothing was applied: {plural(1, 'mistake')} in" in complaints


def test_an_export_has_the_calendars_and_is_applied_without_a_change(zsched: command_line.Zsched) -> None:
    Path("kr.ics").write_text(ICS)
    apply(zsched, TICK + KR + 'windows = ["Sat,Sun"]\nics = "kr.ics"\n')

    exported = zsched("export").stdout
    code, told, _ = apply(zsched, exported)

    assert (0, "0 created, 0 updated, 1 unchanged, 0 removed\n") == (code, told)
    assert "[calendars.kr]" in exported
    assert "[calendars.kr]" in zsched("export", "--id", "tick").stdout
    assert "[calendars.kr]" not in zsched("export", "--id", "other").stdout
