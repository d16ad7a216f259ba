"""Passwords as stored."""

from __future__ import annotations

import pytest

from zsched.storage.people import PasswordHash

HELD = {"n": 2**15, "r": 8, "p": 1, "salt": "00" * 16, "hash": "00" * 32}


@pytest.mark.parametrize("cost", [{"p": 5}, {"r": 33}, {"n": 2**18}, {"n": 0}, {"r": 0}, {"p": -1}])
def test_a_stored_password_with_a_cost_out_of_bounds_is_refused(cost: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="no parameters of scrypt, or too expensive ones"):
        PasswordHash.of(HELD | cost)


def test_the_highest_cost_of_a_stored_password_is_accepted() -> None:
    assert 2**20 == 2**15 * 8 * PasswordHash.of(HELD | {"p": 4}).p
