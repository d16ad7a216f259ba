"""A Redis that refuses writes: every view names that first, and nothing that only follows from it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import redis
from click.testing import CliRunner

from tests.builders.redises import connect
from tests.builders.web import Web
from tests.integration.asking import ANYWHERE, ask, pages_of
from tests.integration.service_manager import Manager
from tests.waiting import eventually
from zsched import Client, RedisRefused, RedisUnavailable
from zsched.cli import program
from zsched.cli.program import UNHEALTHY
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once

FUNC = "app.tasks.run"


def fill(watch: redis.Redis) -> None:
    watch.config_set("maxmemory", "1mb")


def empty(watch: redis.Redis) -> None:
    watch.config_set("maxmemory", "0")


def fail_to_save(watch: redis.Redis) -> None:
    """Let the snapshot find a folder of its own name."""
    Path(watch.config_get("dir")["dir"], watch.config_get("dbfilename")["dbfilename"]).mkdir()
    watch.config_set("save", "3600 1")
    watch.bgsave()
    eventually(lambda: watch.info("persistence")["rdb_last_bgsave_status"] == "err")


def save(watch: redis.Redis) -> None:
    Path(watch.config_get("dir")["dir"], watch.config_get("dbfilename")["dbfilename"]).rmdir()
    watch.bgsave()


def fail_to_append(watch: redis.Redis) -> None:
    """Let the append-only file be one that is always full. Redis 6.2 renames another file to it and goes on."""
    where = watch.config_get("appenddirname")
    if not where:
        pytest.skip("this Redis has no folder of append-only files")
    folder = Path(watch.config_get("dir")["dir"], where["appenddirname"])
    folder.mkdir()
    (folder / "temp-appendonly.aof.incr").symlink_to("/dev/full")
    watch.config_set("appendonly", "yes")
    eventually(lambda: watch.info("persistence")["aof_last_write_status"] == "err")


def append_nothing(watch: redis.Redis) -> None:
    watch.config_set("appendonly", "no")


def lose_replicas(watch: redis.Redis) -> None:
    watch.config_set("min-replicas-to-write", 2)


def need_no_replicas(watch: redis.Redis) -> None:
    watch.config_set("min-replicas-to-write", 0)


def follow(watch: redis.Redis) -> None:
    watch.replicaof("127.0.0.1", "1")  # nobody is there


def promote(watch: redis.Redis) -> None:
    watch.replicaof("NO", "ONE")


class Way(NamedTuple):
    """A way to refuse writes, its end, its words in status, and the error of a client."""

    begin: Callable[[redis.Redis], None]
    end: Callable[[redis.Redis], None]
    status: str
    words: str
    error: type[Exception]


WAYS = {
    "OOM": Way(fill, empty, "% of maxmemory", "it is full (maxmemory); free memory", RedisRefused),
    "MISCONF": Way(fail_to_save, save, "cannot save its data", "it cannot save its data to its disk", RedisRefused),
    "MISCONF of the append-only file": Way(
        fail_to_append, append_nothing, "cannot save its data", "it cannot save its data to its disk", RedisRefused,
    ),
    "NOREPLICAS": Way(lose_replicas, need_no_replicas, "min-replicas-to-write is", "too few", RedisUnavailable),
    "READONLY": Way(follow, promote, "it is a replica of 127.0.0.1:1", "it is a replica", RedisUnavailable),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_view_names_the_refusal_first_and_nothing_that_follows(
    own_redis: EmbeddedRedis, manager: Manager, guard: Guard, tmp_path: Path, way: Way
) -> None:
    web = Web(guard, own_redis.url, tmp_path)
    daemon = manager.start(own_redis.url, METRICS_LISTEN=ANYWHERE)
    daemon.wait_for("term_began")
    where, client = pages_of(daemon), Client.from_url(own_redis.url)
    client.schedule(FUNC, id="due", after=0)
    with connect(own_redis.url) as watch, web.browser() as ann:
        way.begin(watch)
        result = CliRunner().invoke(program, ["status"], env={"ZSCHED_REDIS_URL": own_redis.url})
        said = result.output.splitlines()
        assert UNHEALTHY == result.exit_code
        assert said[0].startswith("UNHEALTHY: Redis refuses writes: ")
        assert way.status in said[0]
        assert said[1].startswith("  → ")
        for misleading in ("leads", "no daemon", "stands by", "silent", "redis_refused"):
            assert misleading not in "\n".join(said[:3])
        now = " ".join(re.sub("<[^>]+>", " ", ann.get("/").text).split())
        first = now.partition(" Unhealthy Redis refuses writes: ")[2].partition(" Warning: ")[0]
        assert way.status in first
        eventually(lambda: "refuse" in ask(where, "/readyz").text)
        assert 503 == ask(where, "/readyz").status
        manager.wait_for_status("refuse")
        with pytest.raises(way.error, match=r"refuses writes: ") as caught:
            client.schedule(FUNC, after=3600)
        assert way.words in str(caught.value)
        assert "script" not in str(caught.value)

        way.end(watch)

        eventually(lambda: 200 == ask(where, "/readyz").status)
