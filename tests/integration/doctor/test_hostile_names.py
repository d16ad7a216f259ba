"""Names that another program wrote into Redis, in the commands of remedies: each is one word there, and no option."""

import re
import shlex
from collections.abc import Iterable, Iterator

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.integration.doctor.examining import KEYS, examined
from tests.integration.doctor.test_rq import registered
from tests.integration.standing import status
from tests.prefix import RQ
from zsched import Client

HOSTILE = (
    "shop-a;touchHERE",
    "shop-a$(touchHERE)",
    "shop-a`touchHERE`",
    "shop-a'HERE",
    'shop-a"HERE',
    "shop-a\nHERE",
    "shop-a HERE",
    "-shop-aHERE",
    "--worker-class=shop-aHERE",
)
A_COMMAND = re.compile(r"(?:\S+=\S+ )*\b(?:zsched|rq|redis-cli) .*", re.DOTALL)


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest, sound: redis.Redis) -> str:
    """A name, in every place of Redis from which a check may take one."""
    name = str(request.param)
    client = Client(sound)
    client.schedule("app.run", id="daily", every=3600, queue="shop-a")
    registered(sound, "w1", queues="other")
    registered(sound, f"w{name}", queues=name, version="1.0")
    for queue in (name, f"{name}-unheard"):
        sound.sadd(f"{RQ}:queues", f"{RQ}:queue:{queue}")
        sound.rpush(f"{RQ}:queue:{queue}", "job")
        sound.hset(f"{RQ}:job:job", mapping={"enqueued_at": "2020-01-01T00:00:00.000000Z", "status": "queued"})
        sound.set(f"{RQ}:scheduler-lock:{queue}", name)
    sound.zadd(f"{RQ}:cron_schedulers", {name: sound.time()[0]})
    sound.hset(f"{RQ}:cron_scheduler:{name}", "config_file", name)
    sound.hset(f"rq:scheduler_instance:{name}", "birth", "now")
    sound.hset("zsched:{" + name + "}:meta", "epoch", 1)
    sound.sadd(KEYS.recurring(), name)
    sound.hset(KEYS.quarantine(), name, "1 1 1 broken")
    sound.hset(KEYS.paused(), name, "1 1 x")
    for key in (KEYS.schedule(name), KEYS.template(f"{name}-left"), f"{KEYS.prefix}due:normal:{name}"):
        sound.set(key, "of a wrong type")
    sound.hset(KEYS.meta(), mapping={"serializer": name, "rq_prefix": name} if name < "-t" else {"x": "1"})
    return name


def commands_with_a_name(remedies: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words of each command in *remedies* that contains a hostile name."""
    for remedy in remedies:
        for command in A_COMMAND.findall(remedy):
            if "HERE" in command:
                yield shlex.split(command)


def test_a_hostile_name_is_one_word_of_a_command_and_no_option(url: str, sound: redis.Redis, hostile: str) -> None:
    found = [one for findings in examined(url).values() for one in findings]
    told = status(Zsched(url))

    remedies = [one.remedy for one in found] + [one["remedy"] for one in told["alarms"] + told["warnings"]]
    commands = list(commands_with_a_name(remedies))
    assert commands
    for words in commands:
        for place, word in enumerate(words):
            if "HERE" in word:
                assert hostile in word, words
                assert not word.startswith("-") or "--" in words[:place] or words[place - 1] == "--queue", words
    assert not [words for words in commands if "import" in words]
