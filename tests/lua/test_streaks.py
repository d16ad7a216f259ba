"""lib/streaks.lua, through track.lua: runs of a schedule that fail one after the other."""

import pytest

from tests.builders.namespaces import Namespace
from tests.builders.progress import change_progress
from tests.lua.test_pause_resume import _resume

NOMINAL_MS = 1_767_225_600_000


def put(ns: Namespace, pause_after: int | None = 3, **over: str) -> str:
    own = {} if pause_after is None else {"pause_after": str(pause_after)}
    return str(ns.put_recurring("r", own=own, **({"digest": f"digest-{pause_after}"} | over))[0])


def track(ns: Namespace, verdicts: str) -> list[str]:
    """Record runs of r that ended as *verdicts* say, in one script; return the paused schedules."""
    seen = ns.entries()[0]
    rows: list[str] = []
    for number, verdict in enumerate(verdicts):
        run = f"r-{NOMINAL_MS + number}"
        ns.redis.hset(ns.keys.rq.job(run), mapping={"status": "failed", "ended_at": "now"})
        rows += ["r", run, "failed now", verdict, "failed", "{}"]
    return list(ns.call("track", rows, seen_entry=seen.id, seen_t=seen.t)[5])


def failures(ns: Namespace) -> int | None:
    count = ns.redis.zscore(ns.keys.failing(), "r")
    assert (None if count is None else f"failures={int(count)}") == ns.schedule("r").get("state")
    return None if count is None else int(count)


@pytest.mark.parametrize("ends", [["!!!"], ["!", "!", "!"], ["+!", "!!"], ["!!+!", "!-!"]])
def test_repeated_failures_pause_a_schedule_with_a_reason(led: Namespace, ends: list[str]) -> None:
    put(led)

    paused = [track(led, verdicts) for verdicts in ends]

    assert [[]] * (len(ends) - 1) + [["r"]] == paused
    assert led.places()["r"].startswith("paused normal ")
    last = f"r-{NOMINAL_MS + len(ends[-1]) - 1}"
    note = f"3 failures in a row, the last of run {last}"
    assert ("pause", note) == (led.last.kind, led.last.fields["note"])
    assert led.redis.hget(led.keys.paused(), "r").decode().endswith(f" {note}")
    assert failures(led) is None


@pytest.mark.parametrize("ends", ["!!+!!", "!+!+!+!", "!-!", "+++"])
def test_a_success_between_failures_prevents_the_pause(led: Namespace, ends: str) -> None:
    put(led)

    assert [] == track(led, ends)

    assert led.places()["r"].startswith("normal ")


@pytest.mark.parametrize(
    ("ends", "count"),
    [(["!!!!!"], 5), (["!!+!"], 1), (["+!"], 1), (["!-!"], 2), (["!!+"], None), (["+"], None), (["!!", "+"], None)],
)
def test_failures_in_a_row_are_counted_without_a_limit(led: Namespace, ends: list[str], count: int | None) -> None:
    put(led, None)

    assert [[]] * len(ends) == [track(led, verdicts) for verdicts in ends]

    assert count == failures(led)


@pytest.mark.parametrize("kind", ["one-shot", "ended"])
def test_failures_of_a_one_shot_or_an_ended_schedule_are_not_counted(led: Namespace, kind: str) -> None:
    if kind == "one-shot":
        led.put(("r", NOMINAL_MS * 2))
    else:
        put(led, None)
        led.redis.hset(led.keys.schedule("r"), "ended_at", NOMINAL_MS)
        change_progress(led.redis, led.keys, "r", state="failures=2")
        led.redis.zadd(led.keys.failing(), {"r": 2})

    track(led, "!!")

    assert failures(led) is None


@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_paused_or_cancelled_schedule_is_in_no_trouble(led: Namespace, verb: str) -> None:
    put(led)
    track(led, "!!")
    led.redis.zadd(led.keys.blocked(), {"r": 7, "other": 1})

    led.call(verb, ["r"], **({"note": ""} if verb == "pause" else {}))

    assert failures(led) is None
    assert [b"other"] == led.redis.zrange(led.keys.blocked(), 0, -1)


def test_a_paused_schedule_is_not_paused_again_by_failures(led: Namespace) -> None:
    put(led, 1)
    led.call("pause", ["r"], note="by hand")

    assert [] == track(led, "!")

    assert led.redis.hget(led.keys.paused(), "r").endswith(b" by hand")


def test_resuming_a_schedule_resets_its_failure_count(led: Namespace) -> None:
    put(led)
    track(led, "!!")
    led.call("pause", ["r"], note="by hand")
    _resume(led, "r")

    assert failures(led) is None
    assert [[], ["r"]] == [track(led, "!!"), track(led, "!")]


def test_a_put_that_leaves_the_limit_alone_keeps_the_count(led: Namespace) -> None:
    put(led)
    track(led, "!!")

    assert ["unchanged", "updated"] == [put(led), put(led, digest="another payload")]

    assert 2 == failures(led)
    assert ["r"] == track(led, "!")


@pytest.mark.parametrize("limit", [2, 5, None])
def test_changing_pause_after_resets_the_failure_count(led: Namespace, limit: int | None) -> None:
    put(led)
    track(led, "!!")

    assert "updated" == put(led, limit)

    assert failures(led) is None


def test_resume_works_although_the_schedule_has_a_wrong_type(led: Namespace) -> None:
    put(led)
    led.call("pause", ["r"], note="")
    led.redis.delete(led.keys.schedule("r"))
    led.redis.set(led.keys.schedule("r"), "?")

    assert "resumed" == _resume(led, "r")[0]
