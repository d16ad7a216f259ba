"""The caller's name: its default, its bounds, and who is recorded."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from tests.integration.client.ground import KEYS, queued
from zsched import Client, InvalidSchedule
from zsched.client.caller import caller
from zsched.core.log import Entry

AT = datetime(2030, 1, 1, tzinfo=UTC)
NOT_LINES = ["", "x" * 201, "two\nlines", "\x1b[31m", 7]


def entries(redis_client: redis.Redis) -> list[Entry]:
    """Return the log."""
    found = redis_client.execute_command("XRANGE", KEYS.log(), "-", "+")  # type: ignore[no-untyped-call]  # redis-py's
    return [Entry.of(id, [each for pair in texts.items() for each in pair]) for id, texts in found]


def asked(redis_client: redis.Redis) -> list[tuple[str, str]]:
    """Return kind and caller of each entry."""
    return [(entry.kind, entry.by.decode()) for entry in entries(redis_client)]


def test_the_default_is_user_and_host(redis_url: str) -> None:
    user = pwd.getpwuid(os.getuid()).pw_name

    assert f"{user}@{socket.gethostname()}" == caller(env={}) == caller(None, {"HOME": "/"})


def test_the_default_under_sudo_is_the_user_who_called_it() -> None:
    assert f"ann@{socket.gethostname()} (sudo)" == caller(env={"SUDO_USER": "ann"})


def test_the_environment_and_the_argument_override_the_default(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZSCHED_BY", "deploy of shop")

    assert "deploy of shop" == Client.from_url(redis_url).by
    assert "ann" == Client.from_url(redis_url, by="ann").by


@pytest.mark.parametrize("by", NOT_LINES)
def test_a_name_that_is_no_short_line_is_refused(client: Client, redis_url: str, by: Any) -> None:
    for call in (lambda: Client.from_url(redis_url, by=by), lambda: client.acting_as(by)):
        with pytest.raises(InvalidSchedule) as refused:
            call()
        assert ("by", by) == (refused.value.field, refused.value.value)
        assert "200 printable characters" in refused.value.remedy


def test_a_default_name_is_a_line_whatever_the_environment_has() -> None:
    assert f"ann@{socket.gethostname()} (sudo)" == caller(env={"SUDO_USER": "a\nn\x1bn"})


CHANGES: list[tuple[Callable[[Client], object], str]] = [
    (lambda client: client.schedule("app.task", id="new", at=AT), "put"),
    (lambda client: client.schedule("app.task", id="new", every=60), "put_recurring"),
    (lambda client: client.schedule_many([{"func": "app.task", "at": AT}, {"func": "app.task", "at": AT}]), "put"),
    (lambda client: client.update("once", at=datetime(2031, 1, 1, tzinfo=UTC)), "put"),
    (lambda client: client.update("rule", queue="email"), "put_recurring"),
    (lambda client: client.pause("rule", "until May"), "pause"),
    (lambda client: client.resume("paused"), "resume"),
    (lambda client: client.cancel("rule"), "cancel"),
    (lambda client: client.run_now("rule"), "run_now"),
    (lambda client: client.enqueue("app.task"), "enqueue"),
]


@pytest.mark.parametrize(("change", "kind"), CHANGES)
def test_a_change_is_recorded_under_the_name_of_the_view(
    client: Client, redis_client: redis.Redis, change: Callable[[Client], object], kind: str
) -> None:
    client.schedule("app.task", id="once", at=AT)
    for id in ("rule", "paused"):
        client.schedule("app.task", id=id, every=3600)
    client.pause("paused")
    before = len(entries(redis_client))

    change(client.acting_as("ann"))

    assert [(kind, "ann")] == asked(redis_client)[before:]
    assert {client.by} == {by for _, by in asked(redis_client)[:before]}


def test_a_retry_and_a_cancelled_run_are_recorded_under_the_name_of_the_view(
    client: Client, redis_client: redis.Redis
) -> None:
    run_id = client.enqueue("app.task", id="a").run_id or ""
    assert "cancelled" == client.cancel_run(run_id)  # this client's own operations on runs are made

    ann = client.acting_as("ann")
    again = ann.retry(run_id)
    ann.cancel_run(again)

    assert [("enqueue", client.by), ("end", client.by), ("enqueue", "ann"), ("end", "ann")] == asked(redis_client)
    assert [] == queued(redis_client)


def test_a_view_shares_the_connection_the_scripts_and_the_agreed_serializer(
    client: Client, redis_client: redis.Redis
) -> None:
    for id in "ab":
        client.schedule("app.task", id=id, at=AT)
    before = redis_client.info("commandstats")

    client.acting_as("bob").schedule("app.task", id="c", at=AT)

    after = redis_client.info("commandstats")
    assert before.keys() - {"cmdstat_info"} == after.keys() - {"cmdstat_info"}
    for name in ("cmdstat_script|load", "cmdstat_hget"):  # no script is loaded, and the serializer is not read again
        assert before.get(name, {}).get("calls") == after.get(name, {}).get("calls")
    assert ("put", "bob") == asked(redis_client)[-1]


def test_the_label_of_the_creator_does_not_name_who_changed_it(client: Client) -> None:
    client.schedule("app.task", id="r", every=3600, created_by="svc-a")

    client.acting_as("ann").update("r", queue="email")

    story = client.why("r")
    assert [client.by, "ann"] == [change.by for change in story.changes]
    assert "svc-a" == client.get("r").created_by
    assert story.lines[1][1].startswith("changed by ann: queue: default → email; now for ")


def test_a_schedule_tells_who_paused_it(client: Client) -> None:
    client.schedule("app.task", id="r", every=3600)
    client.acting_as("ann@host").pause("r", "until May")

    found = client.get("r")
    assert ("until May", "ann@host") == (found.note, found.paused_by)
    assert ("until May", "ann@host") == (found.to_dict()["note"], found.to_dict()["paused_by"])
    assert ' by ann@host: "until May"; it would be due ' in client.why("r").verdict.text
    client.resume("r")
    assert (None, None) == (client.get("r").note, client.get("r").paused_by)
