"""Leaders are killed while their notifier sends to a receiver that refuses every second message."""

import itertools
import signal
from pathlib import Path

import pytest
import redis
from rq import Queue

from tests.builders.daemons import DaemonProcess, Start
from tests.builders.leaders import know
from tests.builders.receivers import Receiver
from tests.builders.workers import work_off
from tests.faults.identities import BRIEF
from tests.waiting import eventually
from zsched import Client
from zsched.embedded import EmbeddedRedis

pytestmark = pytest.mark.once

RUNS = 120
KILLS = 3


def test_every_failure_is_sent_in_order_and_repeats_have_their_ids_while_leaders_are_killed(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, receiver: Receiver, tmp_path: Path
) -> None:
    know(watch)
    attempts = itertools.count()
    receiver.answer = lambda request: (200, b"") if next(attempts) % 2 else (500, b"try again")
    config = tmp_path / "zsched.toml"
    config.write_text(f'[notify.ops]\nkind = "webhook"\nurl = "{receiver.url}"\non = ["failed"]\nevery_s = 2\n')
    client = Client.from_url(server.url)

    def start() -> DaemonProcess:
        return start_daemon(server.url, CONFIG=str(config), **BRIEF)

    daemons = [start(), start()]
    names = ["".join(letters) for letters in itertools.islice(itertools.product("abcdefgh", repeat=3), RUNS)]
    for name in names:  # an error of its own each, so a message of its own
        client.schedule("os.remove", args=(f"/nowhere/{name}",), id=name, after=0)
    queue = Queue(connection=watch)
    eventually(lambda: len(queue) == RUNS)
    work_off(queue, watch)

    for number in range(1, KILLS + 1):
        eventually(lambda seen=number * RUNS // (KILLS + 1): len(receiver.messages) >= seen)  # type: ignore[misc]
        leader = eventually(lambda: next((one for one in daemons if one.of("term_began") and not one.has_ended), None))
        assert leader is not None
        leader.send_to_all(signal.SIGKILL)
        leader.wait()
        daemons.append(start())
    eventually(lambda: len(receiver.messages) >= RUNS)

    bodies: dict[str, set[bytes]] = {}
    for request in receiver.taken:
        bodies.setdefault(request.json["id"], set()).add(request.body)
    assert all(len(texts) == 1 for texts in bodies.values())
    assert sorted(names) == sorted(message["events"][0]["id"] for message in receiver.messages)
    ended = [message["at"] for message in receiver.messages]
    assert ended == sorted(ended)
