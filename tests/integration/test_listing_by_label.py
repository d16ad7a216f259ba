"""Listings and plans by tag, owner or name: an archive tells what has it, and Redis tells what that is now."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.builders.daemons import DaemonThread
from tests.integration.client.calls import HOUR, SOON, ids
from zsched import Client, RedisRefused
from zsched.core.model import Schedule
from zsched.storage import questions
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.questions import ask_archives
from zsched.storage.reader import Reader

KEYS = Keys("default")
BY: list[dict[str, Any]] = [
    {"tag": "acme"}, {"owner": "ann"}, {"name": "Nightly"}, {"tag": "acme", "state": "active"},
    {"tag": "acme", "state": "paused"}, {"tag": "acme", "kind": "recurring"}, {"tag": "acme", "queue": "mail"},
    {"tag": "acme", "match": "[ab]*"}, {"tag": "acme", "owner": "ann"}, {"tag": "acme", "limit": 2},
    {"tag": "acme", "due_after": SOON + HOUR}, {"tag": "nobody"},
]  # fmt: skip


@pytest.fixture(autouse=True)
def asks_an_archive_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zsched.storage.reader._FEW", 0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids that listings read in Redis."""
    read, original = list[str](), Reader.schedules

    def schedules(self: Reader, ids: Iterable[str], *more: Any) -> Iterator[Schedule]:
        known = list(ids)
        read.extend(known)
        return original(self, known, *more)

    monkeypatch.setattr(Reader, "schedules", schedules)
    return read


def put_some(client: Client) -> None:
    """Put schedules of every state and kind, with and without the labels that are searched."""
    for number, id in enumerate("abcd"):
        labels: dict[str, Any] = {"tags": ["acme", f"user-{number}"]} if id != "c" else {"owner": "ann"}
        client.schedule(
            "app.task", id=id, at=SOON + (4 - number) * HOUR, queue="mail" if id == "a" else "sms", **labels
        )
    client.schedule("app.task", id="rule", every=3600, tags=["acme"], owner="ann", name="Nightly")
    client.schedule("app.task", id="held", cron="0 0 1 1 *", tags=["acme"])
    client.pause("held")
    client.schedule("app.task", id="over", at=SOON, tags=["acme"])
    client.cancel("over")
    client.update("d", tags=["other"])
    client.schedule("app.task", id="e", at=SOON, name="Nightly")


@pytest.mark.parametrize("filters", BY, ids=str)
def test_a_listing_by_label_is_the_same_with_an_archive_and_without(
    daemon: DaemonThread, client: Client, monkeypatch: pytest.MonkeyPatch, reads: list[str], filters: dict[str, Any]
) -> None:
    put_some(client)

    found = ids(client.list(**filters))

    assert not {"over", "d"} & set(reads)
    monkeypatch.setattr(Reader, "waiting_with", lambda self, facets: None)
    assert ids(client.list(**filters)) == found


def test_a_plan_by_tag_reads_only_what_has_the_tag(daemon: DaemonThread, client: Client, reads: list[str]) -> None:
    put_some(client)
    reads.clear()

    plan = client.pause_many(tag="acme", dry_run=True)
    done = client.pause_many(tag="acme")

    assert (3, 3) == (plan.found, done.done)
    assert {"a", "b", "rule"} <= set(reads) <= {"a", "b", "rule", "held"}
    assert ["a", "b", "held", "rule"] == ids(client.list(tag="acme", state="paused"))


def test_a_plan_by_tag_among_paused_schedules_asks_an_archive(
    daemon: DaemonThread, client: Client, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zsched.storage.reader._FEW", 3)
    for id, tag in (("a", "t"), ("b", "u"), ("c", "u")):
        client.schedule("app.task", id=id, at=SOON, tags=[tag], enabled=False)

    plan = client.resume_many(tag="t", dry_run=True)

    assert (1, {"a"}) == (plan.found, set(reads))


def test_a_listing_by_tag_has_what_was_put_a_moment_ago(daemon: DaemonThread, client: Client) -> None:
    for number in range(20):
        client.schedule("app.task", id=f"s{number:02}", at=SOON + timedelta(minutes=number), tags=["t"])

        assert number + 1 == len(ids(client.list(tag="t")))


def refuse(*_: Any, **__: Any) -> Any:
    raise RedisRefused("NOPERM")


def test_a_listing_by_tag_reads_all_if_the_answer_of_an_archive_is_late_unreadable_or_refused(
    daemon: DaemonThread, client: Client, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.schedule("app.task", id="a", at=SOON, tags=["t"])
    late = ask_archives(link, KEYS, "waiting", facets=["", "", "", ["t"], "", False])
    client.schedule("app.task", id="b", at=SOON, tags=["t"])
    new = {"source": late["source"] | {"as_of_us": 10**17}}
    unreadable = [{}, {"waiting": 7}, {"waiting": [["x", "a"]]}, {"waiting": None}, {"waiting": [[1]]}]

    for answer in (late, *(new | one for one in unreadable)):
        monkeypatch.setattr(questions, "ask_archives", lambda *_, told=answer, **__: told)
        assert ["a", "b"] == ids(client.list(tag="t"))
    monkeypatch.setattr(questions, "ask_archives", refuse)
    assert ["a", "b"] == ids(client.list(tag="t"))
    monkeypatch.setattr(questions, "ask_archives", lambda *_, **__: new | late | new)
    assert ["a"] == ids(client.list(tag="t"))
