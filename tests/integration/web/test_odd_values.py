"""
Odd rules and ids at each door: client, command line, file, HTTP. Each has its right meaning, or one error that names
the field, the value and the remedy; nothing ends in a traceback.
"""

import json
from typing import Any

import click.testing
import httpx
import pytest

from tests.builders.command_line import Zsched
from tests.integration.files.applying import JobsFile
from zsched import Client, InvalidSchedule
from zsched.cli.program import DONE, USAGE
from zsched.errors import InvalidFile

SEOUL = "Asia/Seoul"
FUNC = "app.tasks.digest"

# A rule, and what is stored in Asia/Seoul.
MEANINGS: list[tuple[str, str, str]] = [
    ("rrule", "FREQ=DAILY;UNTIL=20990219", "FREQ=DAILY;UNTIL=20990219T145959Z"),
    ("rrule", "FREQ=DAILY;UNTIL=20990219T090000", "FREQ=DAILY;UNTIL=20990219T000000Z"),
    ("rrule", "FREQ=DAILY;UNTIL=20990219T090000Z", "FREQ=DAILY;UNTIL=20990219T090000Z"),
    ("rrule", "rrule:freq=daily;until=20990219t090000", "FREQ=DAILY;UNTIL=20990219T000000Z"),
    ("rrule", "FREQ=DAILY;UNTIL=99991231", "FREQ=DAILY;UNTIL=99991231T145959Z"),
    ("rrule", " FREQ=WEEKLY;BYDAY=mo,we; ", "FREQ=WEEKLY;BYDAY=MO,WE"),
    ("rrule", "freq=weekly;byday=MO", "FREQ=WEEKLY;BYDAY=MO"),
    ("rrule", "RRULE: FREQ=DAILY", "FREQ=DAILY"),
    ("cron", "0  9\t* * mon-FRI", "0 9 * * mon-FRI"),
    ("cron", "0 0 9 * * 1-5", "0 0 9 * * 1-5"),
    ("cron", "0 0 9 ? * L5", "0 0 9 ? * L5"),
    ("cron", "@Daily", "@Daily"),
]
# A rule, and words of the one error.
REFUSALS: list[tuple[str, str, str]] = [
    ("cron", "0, 15, 30, 45 * * * *", "write '0,15,30,45 * * * *'"),
    ("cron", "0 9, 17 * * *", "write '0 9,17 * * *'"),
    ("cron", "0 9 - 17 * * *", "write '0 9-17 * * *'"),
    ("cron", "*/ 5 * * * *", "write '*/5 * * * *'"),
    ("cron", "0 9 * * MON,", "write '0 9 * * MON'"),
    ("cron", "0,,30 * * * *", "write '0,30 * * * *'"),
    ("cron", "0 0 1 1 * 2027", "at= for a single time"),
    ("cron", "0 0 1 1 2027", "at= for a single time"),
    ("cron", "0 0 12 ? * MON-FRI *", "write '0 0 12 ? * MON-FRI'"),
    ("cron", "0 0 12 1 1 ? 2027-2030", "starts= and ends="),
    ("cron", "0 9–17 * * *", "'–'"),
    ("cron", "0 9 * *\u00a0*", "'\\xa0'"),
    ("cron", "0 9 * * *;", "day of week"),
    ("cron", "“0 9 * * *”", "'“'"),
    ("cron", "every day at 9", "4 fields"),
    ("cron", "CRON_TZ=Asia/Tokyo 0 9 * * *", "give it as tz="),
    ("cron", "0 9 * * 1 Europe/Berlin", "day of week"),
    ("cron", "-1 * * * *", "0-59"),
    ("cron", "60 * * * *", "0-59"),
    ("cron", "H 9 * * *", "would be random"),
    ("cron", "* * *", "3 fields"),
    ("cron", "* * * * * * * *", "8 fields"),
    ("cron", "@reboot", "not a time"),
    ("cron", "", "empty"),
    ("rrule", "FREQ=WEEKLY; BYDAY=MO", "write 'FREQ=WEEKLY;BYDAY=MO'"),
    ("rrule", "FREQ=WEEKLY BYDAY=MO", "write 'FREQ=WEEKLY;BYDAY=MO'"),
    ("rrule", "FREQ=WEEKLY;BYDAY=MO, WE", "write 'FREQ=WEEKLY;BYDAY=MO,WE'"),
    ("rrule", "FREQ=WEEKLY;BYDAY=MO,", "write 'FREQ=WEEKLY;BYDAY=MO'"),
    ("rrule", "FREQ=WEEKLY;;BYDAY=MO", "write 'FREQ=WEEKLY;BYDAY=MO'"),
    ("rrule", "FREQ=WEEKLY;BYDAY=", "NAME=VALUE"),
    ("rrule", "FREQ=WEEKLY;BYDAY=Monday", "MO to SU"),
    ("rrule", "FREQ=DAILY;UNTIL=2099-02-19", "write 20301231"),
    ("rrule", "FREQ=DAILY;UNTIL=20990230", "not a date of the calendar"),
    ("rrule", "FREQ=DAILY;UNTIL=20200101", "before its first time"),
    ("rrule", "FREQ=DAILY;UNTIL=20990219T09", "write 20301231"),
    ("rrule", "FREQ=DAILY;UNTIL=20990219+0900", "write 20301231"),
    ("rrule", "FREQ=DAILY;COUNT=2;UNTIL=20990219", "leave one out"),
    ("rrule", "DTSTART:20240101\nRRULE:FREQ=DAILY", "starts="),
    ("rrule", "FREQ=DAILY;EXDATE=2024-01-01", "neither a date nor a time"),
    ("rrule", "FREQ=HOURLY", "use every="),
    ("rrule", "0 9 * * *", "NAME=VALUE"),
    ("rrule", "", "empty"),
]
BAD_IDS = [
    "--help", "-x", "-", "--", "-1", "", " ", "a b", "a.b", "a:b", "a/b", "ümlaut", "a" * 129, "a\n", "*", "{a}", "~",
]  # fmt: skip
GOOD_IDS = ["a-", "_", "0", "a--b", "A" * 128, "help", "1-1700000000000"]


@pytest.fixture
def client(web: Any, redis_url: str) -> Client:
    return Client.from_url(redis_url)


@pytest.fixture
def zsched(web: Any, redis_url: str) -> Zsched:
    return Zsched(redis_url)


def refused(result: click.testing.Result, *words: str) -> None:
    """Check that the command line refused its arguments in one line with *words*."""
    assert USAGE == result.exit_code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    for word in words:
        assert word in result.output


def file_of(id: str, kind: str, text: str) -> str:
    return f"[schedules.{json.dumps(id)}]\nfunc = '{FUNC}'\ntz = '{SEOUL}'\n{kind} = {json.dumps(text)}\n"


def test_an_odd_rule_means_the_same_at_every_door(client: Client, zsched: Zsched, http: httpx.Client) -> None:
    for n, (kind, text, stored) in enumerate(MEANINGS):
        client.schedule(FUNC, id=f"client-{n}", tz=SEOUL, **{kind: text})
        client.schedule(FUNC, id=f"update-{n}", tz=SEOUL, every=9)
        client.update(f"update-{n}", **{kind: text}, tz=SEOUL)
        client.update(f"update-{n}", **{kind: text})
        client.schedule_many([{"func": FUNC, "id": f"many-{n}", "tz": SEOUL, kind: text}])
        assert DONE == zsched("add", f"add-{n}", FUNC, "--tz", SEOUL, f"--{kind}={text}").exit_code
        zsched("add", f"set-{n}", FUNC, "--tz", SEOUL, "--every", "9s")
        assert DONE == zsched("set", f"set-{n}", f"--{kind}={text}", "--tz", SEOUL).exit_code
        JobsFile(client).apply(file_of(f"file-{n}", kind, text))
        assert 201 == http.put(f"/schedules/http-{n}", json={"func": FUNC, "tz": SEOUL, kind: text}).status_code

        ids = [f"{door}-{n}" for door in ("client", "update", "many", "add", "set", "file", "http")]
        specs = [client.get(id).trigger for id in ids]
        assert [(kind, stored, SEOUL)] * 7 == [(spec.kind.name, spec.expr, spec.tz) for spec in specs]
        times = [str(at) for at in client.preview(f"client-{n}", n=2)]
        assert times == [str(at) for at in client.preview(**{kind: text}, tz=SEOUL, n=2)]


def test_show_and_export_print_an_until_as_it_is_stored(client: Client, zsched: Zsched) -> None:
    kind, text, stored = MEANINGS[0]
    file = file_of("digest", kind, text)
    JobsFile(client).apply(file)

    assert stored in zsched("show", "digest").stdout
    exported = zsched("export").stdout
    assert f'rrule = "{stored}"' in exported
    for again in (file, exported):
        assert ["unchanged"] == [step.outcome for step in JobsFile(client).compare(again)]


def test_an_odd_rule_without_a_meaning_gives_one_error_at_every_door(
    client: Client, zsched: Zsched, http: httpx.Client
) -> None:
    for kind, text, words in REFUSALS:
        with pytest.raises(InvalidSchedule) as caught:
            client.schedule(FUNC, id="a", tz=SEOUL, **{kind: text})
        assert (kind, True) == (caught.value.field, bool(caught.value.remedy)), text
        assert words in str(caught.value)
        with pytest.raises(InvalidSchedule):
            client.preview(**{kind: text})
        with pytest.raises(InvalidFile, match=kind):
            JobsFile(client).apply(file_of("a", kind, text))
        refused(zsched("add", "a", FUNC, "--tz", SEOUL, f"--{kind}={text}"), kind)
        refused(zsched("next", f"--{kind}={text}", "--json"), kind)
        answer = http.put("/schedules/a", json={"func": FUNC, "tz": SEOUL, kind: text})
        assert (422, kind) == (answer.status_code, answer.json()["option"]), text
        assert words in answer.json()["detail"]
    assert [] == list(client.list())


def test_an_id_is_accepted_at_every_door_or_refused_at_every_door(
    client: Client, zsched: Zsched, http: httpx.Client
) -> None:
    for id in BAD_IDS:
        for call in (
            lambda id=id: client.schedule(FUNC, id=id, after=60),
            lambda id=id: client.enqueue(FUNC, id=id),
            lambda id=id: client.get(id),
            lambda id=id: client.cancel(id),
            lambda id=id: client.pause(id),
            lambda id=id: client.update(id, after=60),
            lambda id=id: client.run_now(id),
        ):
            with pytest.raises(InvalidSchedule, match=r"give 1 to 128 of .*, not beginning with -") as caught:
                call()
            assert ("id", id) == (caught.value.field, caught.value.value)
        row = client.schedule_many([{"func": FUNC, "id": id, "after": 60}], errors="return")
        assert 1 == len(row.errors)
        with pytest.raises(InvalidFile, match="not beginning with -"):
            JobsFile(client).apply(file_of(id, "cron", "0 9 * * *"))
        refused(zsched("add", "--after", "60", "--", id, FUNC), "not beginning with -")
        for command in ("show", "cancel", "pause", "run"):
            refused(zsched(command, "--", id))
        answer = http.post("/schedules:batch", content=json.dumps({"func": FUNC, "id": id, "after": 60}))
        assert "not beginning with -" in answer.text, answer.text
    assert [] == list(client.list())
    for id in GOOD_IDS:
        assert "created" == client.schedule(FUNC, id=id, after=60).outcome
        assert DONE == zsched("show", id).exit_code
        assert 200 == http.get(f"/schedules/{id}").status_code
        JobsFile(client).read(file_of(id, "cron", "0 9 * * *"))


PATTERNS = ["reminder-*", "*", "a?", "[ab]"]


def test_a_pattern_in_the_place_of_an_id_names_match(client: Client, zsched: Zsched, http: httpx.Client) -> None:
    for pattern in PATTERNS:
        for command in ("pause", "resume", "cancel", "release", "run", "show", "why", "history", "next"):
            refused(zsched(command, pattern), "a pattern is for match= (--match)")
        for command in ("retry", "cancel-run"):
            assert "a pattern is for match= (--match)" in zsched(command, pattern).stdout
        refused(zsched("ls", pattern), "ids, and patterns of ids, are given by --match", "ls --help")
        for call in (client.pause, client.cancel, client.get, client.why):
            with pytest.raises(InvalidSchedule, match="a pattern is for match="):
                call(pattern)
        answer = http.get(f"/schedules/{pattern.replace('?', '%3F')}")
        assert (422, "id") == (answer.status_code, answer.json()["option"])
    refused(zsched("ls", "digest"), "ids, and patterns of ids, are given by --match")


def test_an_empty_filter_is_refused_at_every_door(client: Client, zsched: Zsched) -> None:
    for name in ("match", "queue", "func", "tag"):
        for command in ("ls", "history", "pause", "cancel"):
            refused(zsched(command, f"--{name}="), f"{name}='': not a text to search for; give a text, or leave it out")
        for call in (client.list, client.history, client.pause_many, client.cancel_many):
            with pytest.raises(InvalidSchedule, match=f"{name}='': not a text to search for"):
                call(**{name: ""})
    refused(zsched("export", "--id", ""), "match='': not a text to search for")
