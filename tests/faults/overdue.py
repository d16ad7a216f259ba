"""
Schedules that are due now, however long the test took until now.

Put a schedule far ahead (``after=3600``), start what is to be started, then let it become due. The log has the move, so
archives know it: a one-shot is put again with its own job, a rule is replanned. The later times of a rule stay those of
its trigger.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import redis

from tests.clocks import now_ms
from zsched import Client
from zsched.core.clock import from_ms
from zsched.core.runs.run_id import run_id_of
from zsched.storage.keys import Keys
from zsched.storage.scripts import Scripts

HOUR_MS = 3_600_000
KEYS = Keys("default")
_LANES = ("high", "normal", "low")
_BATCH = 1_000  # schedules in a call
_OF_ONE_JOB = {b"status", b"created_at", b"data", b"zs_sig", b"zs_version"}  # fields that put writes beside the shared

# KEYS: meta, log, wake, the lane · ARGV: due ms, prefix of schedules, ids
_REPLAN = """
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'seq', 'offset_ms', 'tzdata')
local time, seq = redis.call('TIME'), (meta[2] or 0) + 1
local t = string.format('%.0f', time[1] * 1000000 + time[2] + (meta[3] or 0) * 1000)
local fields = {'kind', 'replan', 't', t, 'old', meta[4] or '', 'new', meta[4] or '', 'rows', #ARGV - 2}
for n = 3, #ARGV do
  local key = ARGV[2] .. ARGV[n]
  fields[#fields + 1] = ARGV[n]
  local nominal, rest = string.match(redis.call('HGET', key, 'progress'), '^(%S+) (.*)$')
  fields[#fields + 1] = table.concat({nominal, ARGV[1], ARGV[1]}, ' ')
  redis.call('HSET', key, 'progress', ARGV[1] .. ' ' .. rest)
  redis.call('ZADD', KEYS[4], ARGV[1], ARGV[n])
end
redis.call('XADD', KEYS[2], (meta[1] or '0') .. '-' .. string.format('%.0f', seq), unpack(fields))
redis.call('HSET', KEYS[1], 'seq', string.format('%.0f', seq))
redis.call('PUBLISH', KEYS[3], ARGV[1])
"""


class _Through:
    """The channel of a test's client."""

    def __init__(self, watch: redis.Redis) -> None:
        self.execute = watch.execute_command


def become_due(watch: redis.Redis, *ids: str, keys: Keys = KEYS) -> list[str]:
    """Make waiting schedules *ids* due now, all at the same time. Return their run ids, in the order of *ids*."""
    offset_ms = int(watch.hget(keys.meta(), "offset_ms") or 0)
    due_ms = int(watch.hget(keys.meta(), "frozen_ms") or now_ms(watch) + offset_ms)
    for lane in _LANES:
        key = f"{keys.prefix}due:{lane}"
        scores = watch.zmscore(key, list(ids))
        at = {id: f"{score:.0f}" for id, score in zip(ids, scores, strict=True) if score is not None}
        rules = dict(zip(at, watch.smismember(keys.recurring(), list(at)), strict=True)) if at else {}
        _put_again(watch, keys, lane, due_ms, {id: score for id, score in at.items() if not rules[id]})
        for some in _batches(id for id in at if rules[id]):
            watch.eval(_REPLAN, 4, keys.meta(), keys.log(), keys.wake(), key, due_ms, keys.schedule(""), *some)
    return [run_id_of(id, f"{due_ms}{keys.run_suffix}") for id in ids]


def put_due(client: Client, watch: redis.Redis, ids: Iterable[str], rule: Mapping[str, Any]) -> tuple[int, int]:
    """Put hourly schedules *ids* with the options of *rule*, all due now. Return their due time and their next time."""
    next_ms = now_ms(watch) + HOUR_MS
    rows = [{**rule, "id": id, "every": 3600, "starts": from_ms(next_ms)} for id in ids]
    assert client.schedule_many(rows).created == len(rows)
    runs = become_due(watch, *(row["id"] for row in rows))
    return int(runs[0].rpartition("-")[2]), next_ms


def _put_again(watch: redis.Redis, keys: Keys, lane: str, due_ms: int, at: Mapping[str, str]) -> None:
    """Put one-shots of *lane*, by id with their due times, to *due_ms*, each with its own job."""
    with watch.pipeline(transaction=False) as pipeline:
        for id, score in at.items():
            pipeline.hgetall(keys.rq.job(run_id_of(id, f"{score}{keys.run_suffix}")))
        jobs = dict(zip(at, pipeline.execute(), strict=True))
    alike = defaultdict[tuple[Any, ...], list[str]](list)  # ids by the fields that their jobs share
    for id, job in jobs.items():
        alike[tuple(pair for pair in job.items() if pair[0] not in _OF_ONE_JOB)].append(id)
    arguments = {"lane": lane, "if_exists": "replace", "enabled": "", "allow_past": 1}
    scripts = Scripts(_Through(watch), keys)
    for shared, those in alike.items():
        texts = [text for pair in shared for text in pair]
        for some in _batches(those):
            rows = [text for id in some for text in (id, due_ms, jobs[id].get(b"zs_sig", b"data"), jobs[id][b"data"])]
            reply = scripts.call(
                "put", rows=[*texts, *rows], **arguments, seen_version="", field_size=len(texts), op="-"
            )
            assert [b"updated"] * len(some) == reply[2::2], reply


def _batches(ids: Iterable[str]) -> Iterator[list[str]]:
    those = list(ids)
    return (those[first : first + _BATCH] for first in range(0, len(those), _BATCH))
