"""The cases of a parametrized test in the usual run, and in `make test-all`."""

import itertools

import pytest

from tests.breadth import each, pairs, some


@pytest.fixture(params=["0", "1"], ids=["usual", "all"])
def everything(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv("ZSCHED_TEST_ALL", request.param)
    return request.param == "1"


def test_the_usual_run_has_a_named_choice(everything: bool) -> None:
    assert some(range(12), 3, 7) == (list(range(12)) if everything else [3, 7])


def test_a_choice_that_is_not_a_case_is_refused(everything: bool) -> None:
    with pytest.raises(ValueError, match="9"):
        some(range(3), 1, 9)


def test_rows_of_each_value_are_as_many_as_the_longest_axis_has(everything: bool) -> None:
    rows = each("abc", [1, 2], [True])

    assert len(rows) == (6 if everything else 3)
    assert [set("abc"), {1, 2}, {True}] == [set(axis) for axis in zip(*rows, strict=True)]


@pytest.mark.parametrize("sizes", [(), (3,), (3, 4), (2, 2, 2), (5, 3, 6), (4, 1, 3, 2), (2,) * 7], ids=str)
def test_pairs_of_values_occur_once_at_least(everything: bool, sizes: tuple[int, ...]) -> None:
    axes = [[[axis, value] for value in range(size)] for axis, size in enumerate(sizes)]  # lists: not hashable

    rows = pairs(*axes)

    whole = list(itertools.product(*axes))
    assert all(row in whole for row in rows)
    assert len(rows) == len(whole) if everything else len(rows) <= len(whole)
    for one, other in itertools.combinations(range(len(axes)), 2):
        assert all(any(row[one] == x and row[other] == y for row in rows) for x in axes[one] for y in axes[other])


def test_the_choice_is_little_longer_than_the_two_longest_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZSCHED_TEST_ALL", raising=False)

    assert 16 * 11 == len(pairs(range(5), range(16), range(11)))
    assert len(pairs(*[range(2)] * 10)) <= 12
