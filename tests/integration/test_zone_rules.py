"""The rules of a zone change: daemons as processes, each with separate tzdata."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from importlib import resources
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonProcess, DaemonThread, archive_of_its_own
from tests.builders.leaders import HOUR_MS
from tests.builders.progress import change_progress
from tests.clocks import day_later, now_ms, set_back
from tests.ledger import doubles, entries, queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms, to_ms
from zsched.core.occurrences.outcomes import What
from zsched.embedded.guard import Guard
from zsched.storage.keys import Keys

FUNC, TZ = "app.task", "Europe/Berlin"
EAST, WEST = "Etc/GMT-4", "Etc/GMT+1"  # two or three hours from Berlin: its times come so much earlier, or later


@pytest.fixture
def client(client: Client, redis_client: redis.Redis) -> Client:
    redis_client.client_kill_filter(_type="pubsub")
    return client


class Machine:
    """
    A machine on which daemons run one after the other, with a folder of zones in which Berlin has the rules of
    *berlin*.
    """

    def __init__(self, guard: Guard, url: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._guard, self._url, self._folder, self._patch = guard, url, folder, patch
        self._archive = archive_of_its_own()

    def start(self, version: str, berlin: str) -> DaemonProcess:
        zones = self._folder / version
        (zones / "Europe").mkdir(parents=True)
        for name, rules in ((TZ, berlin), ("UTC", "UTC")):
            (zones / name).write_bytes(resources.files("tzdata").joinpath("zoneinfo", *rules.split("/")).read_bytes())
        (zones / "tzdata.zi").write_text(f"# version {version}\n")
        self._patch.setenv("PYTHONTZPATH", str(zones))
        return DaemonProcess(self._guard, self._url, ARCHIVE_PATH=self._archive)


@pytest.fixture
def machine(guard: Guard, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(guard, redis_url, tmp_path, monkeypatch)


@contextmanager
def running(daemon: DaemonProcess) -> Iterator[DaemonProcess]:
    """Stop *daemon* at the end of the block."""
    yield daemon
    daemon.stop()


def daily(at_ms: int, rules: str) -> str:
    """Return the rule that is due at *at_ms*, and every day, by the clock of *rules*."""
    local = from_ms(at_ms).astimezone(ZoneInfo(rules))
    return f"FREQ=DAILY;BYHOUR={local.hour};BYMINUTE={local.minute};BYSECOND={local.second}"


def in_whole_seconds(client: redis.Redis, ahead_s: int) -> int:
    return (now_ms(client) // 1000 + ahead_s) * 1000


def test_a_daemon_with_new_zone_rules_fires_at_the_new_time_and_logs_both_versions(
    client: Client, redis_client: redis.Redis, machine: Machine
) -> None:
    new_ms = in_whole_seconds(redis_client, -1)
    with set_back(redis_client, HOUR_MS):
        put = client.schedule(FUNC, id="r", rrule=daily(new_ms, EAST), tz=TZ)
        client.schedule(FUNC, id="paused", rrule=daily(new_ms, EAST), tz=TZ)
    client.schedule(FUNC, id="utc", cron="0 9 * * *")
    client.pause("paused", "until May")
    assert put.next_at is not None
    old_ms = to_ms(put.next_at)
    assert new_ms + HOUR_MS < old_ms
    others = client.get("utc")

    with running(machine.start("2025a", TZ)) as before:
        before.wait_for("zone_rules_noted")
        assert b"2025a" == redis_client.hget("zsched:{default}:meta", "tzdata")
    with running(machine.start("2025b", EAST)) as after:
        said = after.wait_for("zone_rules_changed")
        eventually(lambda: redis_client.llen(f"{RQ}:queue:default"))
        story = client.why("r")

    assert {"old": "2025a", "new": "2025b", "moved": 2, "level": "warning"}.items() <= said.items()
    assert [f"r-{new_ms}"] == queued(redis_client)
    assert day_later(new_ms, EAST, EAST) == client.get("r").next_ms
    assert new_ms == client.get("paused").next_ms
    assert others == client.get("utc")
    rows = [line for entry in entries(redis_client, "replan") for line in entry.rows]
    assert sorted(f"{id} {old_ms} {new_ms} {new_ms} -" for id in ("r", "paused")) == sorted(rows)
    lines = [text for _, text in story.lines if "rules changed" in text]
    assert ["2025a → 2025b"] == [line.partition("tzdata ")[2].partition(")")[0] for line in lines]
    assert " instead of " in lines[0]
    assert [What.PUT, What.REPLANNED, What.FIRED] == [change.what for change in story.changes]


def test_an_occurrence_that_fired_by_the_old_rules_does_not_fire_again(
    client: Client, redis_client: redis.Redis, machine: Machine
) -> None:
    at_ms = in_whole_seconds(redis_client, -1)
    with set_back(redis_client, HOUR_MS):
        client.schedule(FUNC, id="r", rrule=daily(at_ms, TZ), tz=TZ)

    with running(machine.start("2025a", TZ)):
        eventually(lambda: redis_client.llen(f"{RQ}:queue:default"))
    with running(machine.start("2025b", WEST)) as after:
        after.wait_for("zone_rules_changed")
        next_ms = client.get("r").next_ms
    with running(machine.start("2025c", TZ)) as back:  # an older machine takes over
        said = back.wait_for("zone_rules_changed")

    assert [f"r-{at_ms}"] == queued(redis_client)
    assert day_later(at_ms, TZ, WEST) == next_ms
    assert day_later(at_ms, TZ, TZ) == client.get("r").next_ms
    assert {"old": "2025b", "new": "2025c", "moved": 1}.items() <= said.items()


def test_an_occurrence_due_by_the_old_rules_at_start_waits_for_its_new_time(
    client: Client, redis_client: redis.Redis, machine: Machine
) -> None:
    at_ms = in_whole_seconds(redis_client, -1)
    with set_back(redis_client, HOUR_MS):
        client.schedule(FUNC, id="r", rrule=daily(at_ms, TZ), tz=TZ)
    later_ms = day_later(at_ms, TZ, WEST) - 24 * HOUR_MS
    redis_client.hset("zsched:{default}:meta", "tzdata", "2025a")

    with running(machine.start("2025b", WEST)) as after:
        after.wait_for("zone_rules_changed")
        client.schedule(FUNC, id="behind", after=0)
        eventually(lambda: redis_client.llen(f"{RQ}:queue:default"))

    assert ["behind"] == [run.rpartition("-")[0] for run in queued(redis_client)]
    assert later_ms == client.get("r").next_ms
    assert [] == doubles(queued(redis_client))


def test_a_schedule_moved_to_an_earlier_time_wakes_the_daemon(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with set_back(redis_client, HOUR_MS):  # so that the put comes in time
        next_at = client.schedule(FUNC, id="r", rrule=daily(in_whole_seconds(redis_client, 2), TZ), tz=TZ).next_at
    assert next_at is not None
    change_progress(redis_client, Keys("default"), "r", nominal=to_ms(next_at) + HOUR_MS)
    redis_client.zadd("zsched:{default}:due:normal", {"r": to_ms(next_at) + HOUR_MS})

    with DaemonThread(redis_url, idle_ms=60_000) as daemon:
        daemon.wait_for("zone_rules_changed")
        eventually(lambda: redis_client.llen(f"{RQ}:queue:default"))

    assert [f"r-{to_ms(next_at)}"] == queued(redis_client)
    assert min(entry.t_us for entry in entries(redis_client, "advance")) >= to_ms(next_at) * 1000


def local_of(at_ms: int, rules: str) -> datetime:
    """Return the local time of an instant by *rules*, naive."""
    return from_ms(at_ms).astimezone(ZoneInfo(rules)).replace(tzinfo=None)


def later_ms(at_ms: int, old: str, new: str) -> int:
    """Return by how much later a local time is by the *new* rules."""
    return (local_of(at_ms, old) - local_of(at_ms, new)) // timedelta(milliseconds=1)


def signing(url: str, folder: Path) -> Client:
    """Return a client with a key."""
    keys = folder / "keys"
    keys.write_text(f"k1 {'ab' * 32}\n")
    keys.chmod(0o600)
    return Client.from_url(url, signing_keys_file=keys)


def test_one_shots_in_local_time_move_with_their_zone_and_instants_stay(
    client: Client, redis_client: redis.Redis, redis_url: str, machine: Machine, tmp_path: Path
) -> None:
    at_ms = in_whole_seconds(redis_client, 48 * 3600)
    here, there_ms = local_of(at_ms, TZ), at_ms + later_ms(at_ms, TZ, WEST)
    client.schedule(FUNC, id="local", at=here, tz=TZ, args=(1,))
    client.schedule(FUNC, id="paused", at=here, tz=TZ)
    client.pause("paused", "until May")
    client.schedule_many([{"func": FUNC, "id": f"row-{n}", "at": here, "tz": TZ, "args": [n]} for n in range(3)])
    client.schedule(FUNC, id="updated", at=here, tz=TZ)
    client.update("updated", queue="other")
    client.schedule(FUNC, id="instant", at=from_ms(at_ms), tz=TZ)
    client.schedule(FUNC, id="delay", after=48 * 3600, tz=TZ)
    signing(redis_url, tmp_path).schedule(FUNC, id="signed", at=here, tz=TZ)
    moved = dict.fromkeys(("local", "paused", "updated", "row-0", "row-1", "row-2"), at_ms)
    stay = {"instant": at_ms, "signed": at_ms, "delay": client.get("delay").next_ms}

    with running(machine.start("2025a", TZ)) as before:
        before.wait_for("zone_rules_noted")
    with running(machine.start("2025b", WEST)) as after:
        said = after.wait_for("zone_rules_changed")
        between = {one.id: one.next_ms for one in client.list()}
        status = Zsched(redis_url)("status").stdout
    with running(machine.start("2025c", TZ)) as back:
        again = back.wait_for("zone_rules_changed")

    assert [(6, 1), (6, 0)] == [(one["moved"], one["kept"]) for one in (said, again)]
    assert dict.fromkeys(moved, there_ms) | stay == between
    assert moved | stay == {one.id: one.next_ms for one in client.list()}
    assert ("other", "until May") == (client.get("updated").queue, client.get("paused").note)
    assert "new rules of a zone did not move 1 signed one-shot of local time: signed is due " in status
    [line] = [text for _, text in client.why("local").lines if "2025a → 2025b" in text]
    assert "by zone rules 2025a → 2025b" in line
