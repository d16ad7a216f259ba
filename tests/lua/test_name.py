"""name.lua and adopt.lua: the names of a data set."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lua.ground import SERVER, TOKEN, Ground


@pytest.fixture
def nameless(led: Ground) -> Ground:
    """A namespace with a leader in the first term of a complete log, with doubt and hold."""
    led.redis.hdel(led.keys.meta(), "gen")
    led.redis.hset(led.keys.meta(), mapping={"epoch": 1, "doubt": 5, "hold": 7})
    led.put(("a", "+60000"))
    return led


def _name(ground: Ground, gen: str = "new", is_new: int = 1, **over: Any) -> Any:
    return ground.call("name", **({"token": TOKEN, "expected_server": SERVER, "gen": gen, "is_new": is_new} | over))


def _meta(ground: Ground, *fields: str) -> list[str | None]:
    return [value and value.decode() for value in ground.redis.hmget(ground.keys.meta(), fields)]


def test_naming_a_new_data_set_removes_its_doubt_and_keeps_its_hold(nameless: Ground) -> None:
    before = len(nameless.entries())

    [names] = _name(nameless)

    assert "new" == names
    assert ["new", None, "7"] == _meta(nameless, "gen", "doubt", "hold")
    assert before == len(nameless.entries())


def test_a_data_set_stays_in_doubt_if_an_archive_has_another_history(nameless: Ground) -> None:
    _name(nameless, is_new=0)

    assert ["new", "5"] == _meta(nameless, "gen", "doubt")


def test_a_data_set_stays_in_doubt_in_a_later_term(nameless: Ground) -> None:
    nameless.redis.hset(nameless.keys.meta(), "epoch", 2)

    _name(nameless)

    assert ["new", "5"] == _meta(nameless, "gen", "doubt")


def test_a_log_that_is_not_complete_stays_in_doubt(nameless: Ground) -> None:
    nameless.put(("b", "+60000"))
    nameless.trimmed = nameless.redis.xtrim(nameless.keys.log(), maxlen=1, approximate=False)

    _name(nameless)

    assert ["new", "5"] == _meta(nameless, "gen", "doubt")


def test_an_existing_name_is_not_replaced(nameless: Ground) -> None:
    nameless.redis.hset(nameless.keys.meta(), "gen", "old")

    [names] = _name(nameless)

    assert ("old", ["old", "5"]) == (names, _meta(nameless, "gen", "doubt"))


@pytest.mark.parametrize(
    ("before", "after"), [(None, "mine"), ("mine", "mine"), ("old", "old mine"), ("mine2 old", "mine2 old mine")]
)
def test_a_data_set_that_adopted_another_has_both_names(ground: Ground, before: str | None, after: str) -> None:
    ground.redis.delete(ground.keys.meta())
    if before:
        ground.redis.hset(ground.keys.meta(), "gen", before)

    assert [after] == ground.call("adopt", gen="mine")
    assert [after] == ground.call("adopt", gen="mine")
    assert [after] == _meta(ground, "gen")
