"""A schedule whose zone a machine lacks: daemons as processes with data of their own, and readers."""

from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonProcess
from tests.builders.leaders import HOUR_MS
from tests.builders.machines import slim_machine
from tests.clocks import set_back
from tests.ledger import queued
from tests.waiting import eventually
from zsched import Client
from zsched.core.triggers import zones
from zsched.embedded.guard import Guard
from zsched.errors import UnknownZone

FUNC, KYIV = "app.task", "Europe/Kyiv"
LACKS = "this machine's time zone data (2025x) lacks Europe/Kyiv"


@pytest.fixture
def slim(guard: Guard, redis_url: str, tmp_path: Path) -> Callable[[], DaemonProcess]:
    """A function that starts a daemon on a machine whose data has two zones."""

    def start() -> DaemonProcess:
        with slim_machine(tmp_path) as code:
            return DaemonProcess(guard, redis_url, code=code)

    return start


def put_due(client: Client, redis_client: redis.Redis) -> None:
    """Put a rule of each zone, and a one-shot, all due since an hour."""
    with set_back(redis_client, HOUR_MS):
        for id, tz in (("kyiv", KYIV), ("berlin", "Europe/Berlin")):
            client.schedule(FUNC, id=id, cron="* * * * *", tz=tz)
        client.schedule(FUNC, id="once", after=1)


def ids(redis_client: redis.Redis) -> set[str]:
    return {run.rpartition("-")[0] for run in queued(redis_client)}


def test_schedules_of_an_unknown_zone_wait_until_a_daemon_that_has_it_stands_by(
    client: Client, redis_client: redis.Redis, redis_url: str, guard: Guard, slim: Callable[[], DaemonProcess]
) -> None:
    put_due(client, redis_client)

    first = slim()
    said = first.wait_for("zone_unknown")
    eventually(lambda: ids(redis_client) == {"berlin", "once"})
    status, why = (Zsched(redis_url)(*words) for words in (("status",), ("why", "kyiv")))
    second = DaemonProcess(guard, redis_url)
    down = first.wait_for("stepped_down")
    eventually(lambda: "kyiv" in ids(redis_client))

    assert (LACKS, True) == (said["reason"], down["reason"].startswith(LACKS))
    assert 4 == status.exit_code
    problem = "1 schedule cannot be planned: time zone Europe/Kyiv, which the data of the leader's machine lacks"
    assert problem in status.stdout
    assert "HELD BACK: " in why.stdout
    assert 0 == redis_client.exists("zsched:{default}:quarantine")
    assert 1 == len(second.of("term_began"))
    first.stop()
    second.stop()


@pytest.fixture
def unknown(client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Schedules of Kyiv, and readers in this process that lack the zone."""
    put_due(client, redis_client)
    client.schedule(FUNC, id="paused", cron="0 9 * * *", tz=KYIV)
    client.pause("paused")
    accepted = zones._accepted() - {KYIV}
    monkeypatch.setattr(zones, "_accepted", lambda: accepted)
    return client


@pytest.mark.parametrize(
    "words",
    [("ls",), ("ls", "--match", "kyiv"), ("show", "kyiv"), ("why", "kyiv"), ("history", "kyiv"), ("export",)],
    ids=" ".join,
)
def test_a_reader_without_the_zone_shows_all_rows(unknown: Client, redis_url: str, words: tuple[str, ...]) -> None:
    result = Zsched(redis_url)(*words)

    assert 0 == result.exit_code
    assert ("(zone unknown here)" in result.stdout) == (words[0] in ("ls", "show", "why"))


def test_a_client_without_the_zone_changes_other_options_and_says_what_it_cannot_do(unknown: Client) -> None:
    unknown.update("paused", queue="other")

    assert ("other", KYIV) == ((one := unknown.get("paused")).queue, one.tz)
    for call in (lambda: unknown.preview("kyiv"), lambda: unknown.schedule(FUNC, id="new", cron="1 9 * * *", tz=KYIV)):
        with pytest.raises(UnknownZone, match=r"lacks Europe/Kyiv; .*install tzdata"):
            call()
