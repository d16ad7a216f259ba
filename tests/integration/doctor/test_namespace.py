"""The doctor's checks of a namespace: its keys, format, daemons, archives, and orphaned keys."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis

from tests.integration.doctor.examining import KEYS, Case, command_of, examined, found_as, only, report, unwell
from tests.prefix import RQ
from zsched import Client
from zsched.core.entry import FORMAT, OLDEST_FORMAT
from zsched.core.options.choices import Priority
from zsched.health.facts import Severity

HOUR = timedelta(hours=1)
OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


TYPES = {
    "hash": (KEYS.meta(), KEYS.paused(), KEYS.chains(), KEYS.archivers()),
    "zset": (KEYS.due(Priority.LOW), KEYS.deadlines()),
    "set": (KEYS.recurring(), f"{RQ}:queues", f"{RQ}:workers"),
    "list": (KEYS.ask(),),
    "stream": (KEYS.log(),),
}


@pytest.mark.parametrize(("key", "type"), [(key, type) for type, keys in TYPES.items() for key in keys])
def test_a_key_of_a_wrong_type_is_named(url: str, sound: redis.Redis, key: str, type: str) -> None:
    sound.set(key, "mine")

    finding = only(examined(url)["key types"], PROBLEM)

    assert f"{key} is a string, and has to be a {type}" in finding.text
    sound.execute_command(*command_of(finding))
    found = examined(url)
    assert OK is only(found["key types"], OK).severity
    assert "leftovers" not in unwell(found)


def test_a_key_of_a_wrong_type_stops_no_other_check(url: str, sound: redis.Redis) -> None:
    sound.set(KEYS.archivers(), "mine")

    found = examined(url)

    assert Severity.SKIPPED is found["archives"][0].severity
    assert OK is only(found["format"], OK).severity


def rule_with_a_template_of_another_type(sound: redis.Redis) -> None:
    Client(sound).schedule("app.task", id="a", every=HOUR)
    sound.delete(KEYS.template("a"))
    sound.sadd(KEYS.template("a"), "mine")


def waiting_list_of_another_type(sound: redis.Redis) -> None:
    Client(sound).schedule("app.task", id="a", every=HOUR, overlap="queue")
    sound.set(KEYS.waiting("a"), "mine")


def queue_with_a_key_of_another_type(sound: redis.Redis, key: str) -> None:
    sound.sadd(f"{RQ}:queues", f"{RQ}:queue:email")
    sound.set(key, "mine")


MAY_NOT: dict[str, Any] = {"daemon": "d1", "host": "north", "pid": 7, "may_not_lead": "Redis may evict"}
CASES = {
    "a key of a schedule has another type": Case(
        rule_with_a_template_of_another_type, "key types", PROBLEM,
        f"…{KEYS.template('a')} is a set, and has to be a hash…",
    ),
    "the list of a schedule's waiting runs has another type": Case(
        waiting_list_of_another_type, "key types", PROBLEM,
        f"…{KEYS.waiting('a')} is a string, and has to be a list…",
    ),
    "a key of a queue has another type": Case(
        lambda sound: queue_with_a_key_of_another_type(sound, f"{RQ}:queue:email"), "key types", PROBLEM,
        f"…{RQ}:queue:email is a string, and has to be a list…",
    ),
    "a registry of a queue has another type": Case(
        lambda sound: queue_with_a_key_of_another_type(sound, f"{RQ}:failed:email"), "key types", PROBLEM,
        f"…{RQ}:failed:email is a string, and has to be a zset…",
    ),
    "the format is newer": Case(
        lambda sound: sound.hset(KEYS.meta(), "format", FORMAT + 1), "format", PROBLEM,
        f"…in format {FORMAT + 1}, and this one knows {FORMAT}…", "upgrade zsched here",
    ),
    "the format is older": Case(
        lambda sound: sound.hset(KEYS.meta(), "format", OLDEST_FORMAT - 1), "format", PROBLEM,
        f"…in format {OLDEST_FORMAT - 1}, and this one knows {FORMAT}: every call is refused…",
        "…remove the keys zsched:{default}:*…",
    ),
    "the format is ours": Case(lambda sound: sound.hset(KEYS.meta(), "format", FORMAT), "format", OK, "…"),
    "schedules, and no daemon": Case(
        lambda sound: Client(sound).schedule("app.task", id="a", after=HOUR), "daemons", PROBLEM,
        "no daemon is leading: none of this namespace is running",
        "start one: systemctl start zsched, zsched daemon, or zsched worker --with-daemon; until then nothing…",
    ),
    "no daemon of another namespace": Case(
        lambda sound: None, "daemons", PROBLEM, "…", "…zsched worker --with-daemon -n mail; until then…",
        {"namespace": "mail"},
    ),
    "all daemons have stopped": Case(
        lambda sound: sound.hset(KEYS.meta(), "epoch", 3), "daemons", PROBLEM, "…no daemon is leading…",
    ),
    "archives of daemons that have stopped": Case(
        lambda sound: sound.hset(KEYS.meta(), "epoch", 3), "archives", Severity.SKIPPED,
        "no archive follows the log, as no daemon is leading",
    ),
    "a daemon that does not lead": Case(
        lambda sound: report(sound, "a", daemon="d1", host="north", pid=7), "daemons", PROBLEM,
        "no daemon is leading; reported within 10 s: north, pid 7", "…leading_refused…",
    ),
    "a daemon that may not lead": Case(
        lambda sound: report(sound, "a", **MAY_NOT), "daemons", PROBLEM,
        "no daemon is leading; reported within 10 s: north, pid 7 may not lead: Redis may evict",
    ),
    "a schedule in quarantine": Case(
        lambda sound: sound.hset(KEYS.quarantine(), "digest", "normal 1767225600000 1767225600001 its rule is odd"),
        "quarantine", PROBLEM, "1 schedule in quarantine: broken, and not fired: digest (its rule is odd)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_fault_of_the_namespace_is_found(url: str, sound: redis.Redis, case: Case) -> None:
    found_as(case, url, sound)


def test_the_missing_leader_is_the_only_problem_before_the_first_daemon(url: str) -> None:
    found = examined(url)

    assert "no daemon is leading: none of this namespace is running" == only(found["daemons"], PROBLEM).text
    assert "no archive follows the log, as no daemon is leading" == only(found["archives"], Severity.SKIPPED).text
    assert [PROBLEM] == [one.severity for findings in found.values() for one in findings if one.severity is PROBLEM]


def test_daemons_of_different_versions_are_a_warning(url: str, sound: redis.Redis) -> None:
    report(sound, "a", daemon="d1", host="north", version="1.0")
    report(sound, "b", daemon="d2", host="south", version="1.1")
    sound.set(KEYS.lease(), "d1:1:2000:x", px=60_000)

    found = examined(url)["daemons"]

    assert ["daemon d1 leads, 1 other would take over"] == [one.text for one in found if one.severity is OK]
    assert ["daemons of different versions: 1.0 (north, pid ?), 1.1 (south, pid ?)"] == [
        one.text for one in found if one.severity is WARNING
    ]


@pytest.mark.parametrize(
    ("standby", "told"),
    [(False, "no standby daemon (south, pid 7 may not lead: Redis may evict): when the leader"),
     (True, "south, pid 7 may not lead: Redis may evict")],
)  # fmt: skip
def test_a_daemon_that_may_not_lead_is_not_a_standby(url: str, sound: redis.Redis, standby: bool, told: str) -> None:
    report(sound, "a", daemon="d1", host="north")
    report(sound, "b", **MAY_NOT | {"daemon": "d2", "host": "south"})
    if standby:
        report(sound, "c", daemon="d3", host="west")
    sound.set(KEYS.lease(), "d1:1:2000:x", px=60_000)

    found = examined(url)["daemons"]

    assert standby or ["daemon d1 leads"] == [one.text for one in found if one.severity is OK]
    [warning] = [one.text for one in found if one.severity is WARNING]
    assert warning == told if standby else warning.startswith(told)


ARCHIVES: dict[str, tuple[dict[str, Any], str]] = {
    "failed": ({"state": "failed", "trouble": "disk full"}, "failed: disk full"),
    "refused": ({"state": "refused"}, "refused: it gives no reason"),
    "lost": ({"state": "lost"}, "lost: Redis lost data; this archive is restoring it"),
    "unreadable": ({"unknown_entries": 3}, "cannot read 3 entries of the log; it audits nothing"),
    "outdated": ({"state": "outdated", "trouble": "a newer one keeps it"}, "outdated: a newer one keeps it"),
    "behind": ({"at": "1-1 1"}, "is 200,000 entries behind"),
}


@pytest.mark.parametrize("which", ARCHIVES)
def test_an_unwell_archive_is_named_beside_a_healthy_one(url: str, sound: redis.Redis, which: str) -> None:
    about, said = ARCHIVES[which]
    sound.xadd(KEYS.log(), {"kind": "cancel", "t": 1, "rows": 1, "a": 5}, id="1-200001")
    report(sound, "a", daemon="d1", at="1-200001 1")
    report(sound, "b", daemon="d2", **{"at": "1-200001 1"} | about)

    assert [f"archive box:/var/b.db {said}"] == unwell(examined(url))["archives"]


def test_a_silent_archive_is_a_warning_and_a_stopped_archive_is_not(url: str, sound: redis.Redis) -> None:
    report(sound, "a", daemon="d1")
    report(sound, "b", daemon="d2", ago_ms=120_000)
    report(sound, "c", daemon="d3", ago_ms=120_000, state="stopped")

    [said] = unwell(examined(url))["archives"]

    assert said.startswith("archive box:/var/b.db is silent: last report 2m ago")


def test_orphaned_keys_are_named(client: Client, url: str, sound: redis.Redis) -> None:
    client.schedule("app.task", id="kept", every=HOUR)
    sound.hset(KEYS.template("gone"), "origin", "email")
    sound.set(KEYS.op("1"), "done")
    sound.set(KEYS.op("2"), "done", px=60_000)
    sound.zadd(KEYS.due(Priority.LOW) + ":email", {"a": 1})
    sound.rpush(KEYS.waiting("gone"), "gone-1")
    sound.set(KEYS.prefix + "mine", "x")

    found = examined(url)
    said = unwell(found)["leftovers"]

    assert [
        "1 key of a missing recurring schedule: template:gone",
        "1 key of an expired call: op:1",
        "1 key of held-back schedules that no fire reads: due:low:email",
        "1 key of waiting runs that no leader reads: waiting:gone",
        "1 key that zsched does not know: mine",
    ] == said
    assert [1, 1, [b"a"], [b"gone-1"]] == [sound.execute_command(*command_of(one)) for one in found["leftovers"][:4]]


def throttle(sound: redis.Redis) -> None:
    sound.hset(KEYS.meta(), "throttled", "low:email")
    sound.zadd(KEYS.due(Priority.LOW) + ":email", {"a": 1})


def wait(sound: redis.Redis) -> None:
    sound.hset(KEYS.chains(), "gone", "queue gone-1")  # also of a schedule that was cancelled meanwhile
    sound.rpush(KEYS.waiting("gone"), "gone-2")


@pytest.mark.parametrize(
    "given",
    [
        lambda sound: [sound.rpush(key, "a question to archives") for key in (KEYS.ask(),)],
        throttle,
        wait,
        lambda sound: sound.hset(KEYS.kept_local(), "a", "1 2"),
        lambda sound: sound.set("zsched:{other}:mine", "of another namespace"),
    ],
)
def test_keys_in_use_are_not_leftovers(url: str, sound: redis.Redis, given: Callable[[redis.Redis], object]) -> None:
    given(sound)

    assert "leftovers" not in unwell(examined(url))


def test_keys_of_a_retry_and_an_enqueue_are_not_orphaned(client: Client, url: str, sound: redis.Redis) -> None:
    run_id = client.enqueue("app.task", id="once", if_exists="keep").run_id
    sound.hset(f"{RQ}:job:{run_id}", "status", "failed")
    client.retry(str(run_id))

    assert {b"retried", b"unique"} <= {key.split(b":")[2] for key in sound.keys(f"{KEYS.prefix}*")}
    assert "leftovers" not in unwell(examined(url))
