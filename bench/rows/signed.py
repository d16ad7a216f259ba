"""Signing and guards: a bulk insert with signatures beside one without, and workers with a guard beside plain ones."""

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench import load
from bench.arena import Arena, Ground
from bench.children import CHECKOUT, folder
from bench.contest import Contestant, Figure, contest
from bench.load import RQ
from bench.results import Broken, Result
from zsched.client import Client
from zsched.core.runs.job import ms_of
from zsched.storage.keyfile import new_key_line

_AHEAD_MS, _OVER_MS = 3_600_000, 600_000
_FUNC = "math.sqrt"  # it is here, and does nothing
_UNSIGNED, _SIGNED = "zsched", "zsched, signed"
_PLAIN, _OFF, _ENFORCE = "rq.SimpleWorker", "zsched.rq.SimpleWorker, off", "zsched.rq.SimpleWorker, enforce"
_WITHIN_S = 300.0


def measure(arena: Arena) -> Result:
    """The row ``signed``."""
    result = Result("signed", "insert of signed one-shots beside unsigned ones, log on, no AOF", baseline=_UNSIGNED)
    count = arena.size(200_000, 20_000)
    with arena.redis() as ground, folder(arena) as state:
        signing = ground.client(_key_file(state))
        contestants = [
            Contestant(_UNSIGNED, f"{count:,}", "rows/s", partial(_insert, arena, ground, ground.client(), count)),
            Contestant(_SIGNED, f"{count:,}", "rows/s", partial(_insert, arena, ground, signing, count)),
        ]
        contest(arena, ground, result, contestants)
    result.at_least("0.8 × unsigned", result.ratio(_SIGNED, _UNSIGNED), 0.8)
    unsigned, signed = (result.find(who) for who in (_UNSIGNED, _SIGNED))
    if unsigned and signed:
        more = (signed.detail("bytes each") or 0) - (unsigned.detail("bytes each") or 0)
        result.at_most("80 bytes more for each in Redis", more, 80)
    return result


def measure_workers(arena: Arena) -> Result:
    """The row ``guarded``."""
    result = Result("guarded", "runs of an empty task by one worker in its own process, no AOF", baseline=_PLAIN)
    count = arena.size(3000, 300)
    with arena.redis() as ground, folder(arena) as state:
        key_file = _key_file(state)
        enforce = {
            "ZSCHED_WORKER_GUARD": "enforce",
            "ZSCHED_WORKER_ALLOW_CALLABLES": _FUNC,
            "ZSCHED_SIGNING_KEYS_FILE": key_file,
        }
        contestants = [
            Contestant(who, f"{count:,}", "runs/s", partial(_work, arena, ground, key_file, count, kind, settings))
            for who, kind, settings in (
                (_PLAIN, "rq.SimpleWorker", {}),
                (_OFF, "zsched.rq.SimpleWorker", {}),
                (_ENFORCE, "zsched.rq.SimpleWorker", enforce),
            )
        ]
        contest(arena, ground, result, contestants)
    result.notes.append(f"{_FUNC}(4); all runs are signed; from the first start to the last end")
    return result


def _key_file(state: Path) -> str:
    file = state / "keys"
    file.touch(0o600)
    file.write_text(new_key_line("k1"))
    return str(file)


def _insert(arena: Arena, ground: Ground, client: Client, count: int) -> Figure:
    rows = list(load.rows(load.spread(count, arena.clock.now_ms() + _AHEAD_MS, _OVER_MS)))
    before = int(ground.redis.info("memory")["used_memory_dataset"])
    started_ms = arena.clock.monotonic_ms()
    many = client.schedule_many(rows)
    took_ms = arena.clock.monotonic_ms() - started_ms
    if many.created != count or ground.waiting() != count:
        raise Broken(f"{many.created:,} of {count:,} were created, {ground.waiting():,} are waiting")
    ground.redis.delete(ground.keys.log())
    grown = int(ground.redis.info("memory")["used_memory_dataset"]) - before
    return Figure(count / took_ms * 1000, {"bytes each": grown / count})


def _work(arena: Arena, ground: Ground, key_file: str, count: int, kind: str, settings: Mapping[str, str]) -> Figure:
    client = ground.client(key_file)
    run_ids = [client.enqueue(_FUNC, args=(4,), id=f"run-{number}").run_id for number in range(count)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CHECKOUT), environment.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "rq.cli", "worker", "--burst", "--quiet", "--url", ground.url]
    worker = arena.guard.spawn([*command, "--worker-class", kind], env=environment | dict(settings))
    worker.wait(_WITHIN_S)
    jobs = [ground.redis.hmget(RQ.job(str(run_id)), "started_at", "ended_at", "status") for run_id in run_ids]
    load.prove_count(count, sum(status == b"finished" for _, _, status in jobs), kind)
    started_ms, ended_ms = ([ms_of((job[at] or b"").decode()) or 0 for job in jobs] for at in (0, 1))
    return Figure(count / max(max(ended_ms) - min(started_ms), 1) * 1000)
