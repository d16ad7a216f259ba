"""What the doctor says of a namespace: its keys, format, daemons, archives, and what is left over."""

from __future__ import annotations

from datetime import timedelta

import pytest
import redis

from tests.integration.doctor.ground import KEYS, command_of, examined, only, report, unwell
from zsched import Client
from zsched.core.log import FORMAT
from zsched.core.model import Priority
from zsched.doctor.finding import Verdict

HOUR = timedelta(hours=1)
OK, WARNING, PROBLEM = Verdict.OK, Verdict.WARNING, Verdict.PROBLEM


@pytest.fixture
def client(url: str) -> Client:
    return Client.from_url(url)


# -- types --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "type"),
    [
        (KEYS.meta(), "hash"),
        (KEYS.log(), "stream"),
        (KEYS.due(Priority.LOW), "zset"),
        (KEYS.paused(), "hash"),
        (KEYS.recurring(), "set"),
        (KEYS.ask(), "list"),
        (KEYS.ask_names(), "list"),
        (KEYS.chains(), "hash"),
        (KEYS.deadlines(), "zset"),
        (KEYS.archivers(), "hash"),
        ("rq:queues", "set"),
        ("rq:workers", "set"),
    ],
)
def test_a_key_of_a_wrong_type_is_named(url: str, sound: redis.Redis, key: str, type: str) -> None:
    sound.set(key, "mine")

    finding = only(examined(url)["key types"], PROBLEM)

    assert f"{key} is a string, and has to be a {type}" in finding.said
    sound.execute_command(*command_of(finding))
    found = examined(url)
    assert OK is only(found["key types"], OK).verdict
    assert "leftovers" not in unwell(found)


@pytest.mark.parametrize(("key", "type"), [("rq:queue:email", "list"), ("rq:failed:email", "zset")])
def test_a_queues_key_of_a_wrong_type_is_named(url: str, sound: redis.Redis, key: str, type: str) -> None:
    sound.sadd("rq:queues", "rq:queue:email")
    sound.set(key, "mine")

    assert f"{key} is a string, and has to be a {type}" in only(examined(url)["key types"], PROBLEM).said


def test_a_schedules_key_of_a_wrong_type_is_named(client: Client, url: str, sound: redis.Redis) -> None:
    client.schedule("app.task", id="a", every=HOUR)
    sound.delete(KEYS.template("a"))
    sound.sadd(KEYS.template("a"), "mine")

    assert f"{KEYS.template('a')} is a set, and has to be a hash" in only(examined(url)["key types"], PROBLEM).said


def test_a_key_of_a_wrong_type_keeps_no_other_check_from_its_subject(url: str, sound: redis.Redis) -> None:
    sound.set(KEYS.archivers(), "mine")

    found = examined(url)

    assert Verdict.SKIPPED is found["archives"][0].verdict
    assert OK is only(found["format"], OK).verdict


# -- format, daemons, archives ------------------------------------------------------------------------


def test_a_newer_format_is_a_problem(url: str, sound: redis.Redis) -> None:
    sound.hset(KEYS.meta(), "format", FORMAT + 1)

    finding = only(examined(url)["format"], PROBLEM)

    assert f"in format {FORMAT + 1}, and this one knows {FORMAT}" in finding.said
    assert "upgrade zsched on this machine" in finding.remedy


def test_our_format_is_fine(url: str, sound: redis.Redis) -> None:
    sound.hset(KEYS.meta(), "format", FORMAT)

    assert OK is only(examined(url)["format"], OK).verdict


def test_before_the_first_daemon_there_is_only_a_warning(url: str) -> None:
    found = examined(url)

    assert "no daemon has led yet" == only(found["daemons"], WARNING).said
    assert "there is none yet" == only(found["archives"], WARNING).said


def test_where_something_is_scheduled_a_daemon_that_never_led_is_a_problem(url: str, client: Client) -> None:
    client.schedule("app.task", id="a", after=HOUR)

    finding = only(examined(url)["daemons"], PROBLEM)

    assert "nobody leads: nothing fires" == finding.said
    assert finding.remedy.endswith("zsched daemon -n default")


def test_a_daemon_that_lives_and_does_not_lead_is_named(url: str, sound: redis.Redis) -> None:
    report(sound, "a", daemon="d1", host="north", pid=7)

    finding = only(examined(url)["daemons"], PROBLEM)

    assert "1 daemon gave a sign of life just now (north, pid 7)" in finding.said
    assert "start a daemon" not in finding.remedy


def test_when_those_who_led_are_gone_it_is_a_problem(url: str, sound: redis.Redis) -> None:
    sound.hset(KEYS.meta(), "epoch", 3)

    found = examined(url)

    assert "nothing fires" in only(found["daemons"], PROBLEM).said
    assert "no archive follows the log" in only(found["archives"], PROBLEM).said


def test_daemons_of_different_versions_are_a_warning(url: str, sound: redis.Redis) -> None:
    report(sound, "a", daemon="d1", host="north", version="1.0")
    report(sound, "b", daemon="d2", host="south", version="1.1")
    sound.set(KEYS.lease(), "d1:1:2000:x", px=60_000)

    found = examined(url)["daemons"]

    assert ["daemon d1 leads, 1 other would take over"] == [one.said for one in found if one.verdict is OK]
    assert ["daemons differ in their version: 1.0 on north, 1.1 on south"] == [
        one.said for one in found if one.verdict is WARNING
    ]


def test_a_daemon_that_may_not_lead_is_no_one_to_take_over(url: str, sound: redis.Redis) -> None:
    report(sound, "a", daemon="d1", host="north")
    report(sound, "b", daemon="d2", host="south", pid=7, may_not_lead="Redis may evict")
    sound.set(KEYS.lease(), "d1:1:2000:x", px=60_000)

    found = examined(url)["daemons"]

    assert ["daemon d1 leads"] == [one.said for one in found if one.verdict is OK]
    assert ["1 daemon may not lead: south, pid 7 (Redis may evict)"] == [
        one.said for one in found if one.verdict is WARNING
    ]


def test_where_nobody_leads_it_is_said_who_may_not_and_why(url: str, sound: redis.Redis) -> None:
    report(sound, "a", daemon="d1", host="north", pid=7, may_not_lead="Redis may evict")

    finding = only(examined(url)["daemons"], PROBLEM)

    assert "1 daemon gave a sign of life just now (north, pid 7 (Redis may evict))" in finding.said


@pytest.mark.parametrize(
    ("state", "about", "said"),
    [
        ("failed", {"trouble": "disk full"}, "the archive box:/var/b.db has failed: disk full"),
        ("refused", {}, "the archive box:/var/b.db is of another data set than this Redis"),
        ("lost", {}, "the archive box:/var/b.db has what Redis lost"),
        ("following", {"unknown_entries": 3}, "the archive box:/var/b.db keeps 3 entries that its zsched cannot read"),
        (
            "following",
            {"unknown_entries": 3, "unreadable_entries": 3},
            "the archive box:/var/b.db could not read 3 of the log's entries; another writer broke them",
        ),
    ],
)
def test_an_archive_in_trouble_is_named_beside_a_good_one(
    url: str, sound: redis.Redis, state: str, about: dict[str, object], said: str
) -> None:
    report(sound, "a", daemon="d1")
    report(sound, "b", daemon="d2", state=state, **about)

    assert [said] == unwell(examined(url))["archives"]


def test_an_archive_that_is_far_behind_is_a_warning(url: str, sound: redis.Redis) -> None:
    sound.xadd(KEYS.log(), {"kind": "cancel", "t": 1, "id": "a", "due": 5}, id="1-200001")
    report(sound, "a", daemon="d1", at="1-1 1")

    assert ["the archive box:/var/a.db is 200,000 entries behind"] == unwell(examined(url))["archives"]


def test_an_archive_that_stands_back_from_a_newer_format_is_a_warning(url: str, sound: redis.Redis) -> None:
    report(sound, "a", daemon="d1")
    report(sound, "b", daemon="d2", state="outdated", trouble="a newer zsched keeps it")

    [said] = unwell(examined(url))["archives"]

    assert "the archive box:/var/b.db stands back: a newer zsched keeps it" == said


def test_a_silent_archive_is_a_warning_and_one_that_was_stopped_is_none(url: str, sound: redis.Redis) -> None:
    report(sound, "a", daemon="d1")
    report(sound, "b", daemon="d2", ago_ms=120_000)
    report(sound, "c", daemon="d3", ago_ms=120_000, state="stopped")

    [said] = unwell(examined(url))["archives"]

    assert said.startswith("the archive box:/var/b.db is silent since 2m")


# -- schedules and leftovers --------------------------------------------------------------------------


def test_schedules_in_quarantine_are_named_with_the_reason(url: str, sound: redis.Redis) -> None:
    sound.hset(KEYS.quarantine(), "digest", "normal 1767225600000 1767225600001 its rule cannot be read")

    finding = only(examined(url)["quarantine"], WARNING)

    assert "1 schedule in quarantine, not firing: digest (its rule cannot be read)" == finding.said


def test_keys_that_nothing_leads_to_are_named(client: Client, url: str, sound: redis.Redis) -> None:
    client.schedule("app.task", id="kept", every=HOUR)
    sound.hset(KEYS.template("gone"), "origin", "email")
    sound.set(KEYS.op("1"), "done")
    sound.set(KEYS.op("2"), "done", px=60_000)
    sound.zadd(KEYS.due(Priority.LOW) + ":email", {"a": 1})
    sound.set(KEYS.prefix + "mine", "x")

    found = examined(url)
    said = unwell(found)["leftovers"]

    assert [
        "1 key of a recurring schedule that is not there: template:gone",
        "1 key of a call that should have lapsed: op:1",
        "1 key of schedules held back that no fire looks at: due:low:email",
        "1 key that zsched does not know: mine",
    ] == said
    assert [1, 1, [b"a"]] == [sound.execute_command(*command_of(one)) for one in found["leftovers"][:3]]


def test_what_a_queue_has_no_room_for_is_not_left_over(url: str, sound: redis.Redis) -> None:
    sound.hset(KEYS.meta(), "aside", "low:email")
    sound.zadd(KEYS.due(Priority.LOW) + ":email", {"a": 1})

    assert "leftovers" not in unwell(examined(url))


def test_another_namespaces_keys_are_its_own(url: str, sound: redis.Redis) -> None:
    sound.set("zsched:{other}:mine", "x")

    assert "leftovers" not in unwell(examined(url))
