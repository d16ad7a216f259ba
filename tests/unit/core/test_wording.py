"""Numbers of things, and many things, as people are told of them."""

from __future__ import annotations

import pytest

from zsched.core.wording import plural, some


@pytest.mark.parametrize(("number", "said"), [(0, "0 runs"), (1, "1 run"), (2000, "2,000 runs")])
def test_a_number_has_its_noun(number: int, said: str) -> None:
    assert said == plural(number, "run")


@pytest.mark.parametrize(("most", "said"), [(1, "a, …"), (2, "a, b"), (3, "a, b")])
def test_a_long_list_names_only_its_first_names(most: int, said: str) -> None:
    assert said == some(["a", "b"], most)
