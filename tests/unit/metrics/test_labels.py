from __future__ import annotations

from zsched.metrics.meter import OTHER, Names


def test_the_first_names_are_labels_and_later_names_become_other() -> None:
    names = Names(2)

    assert ["a", "b", OTHER, "a"] == [names.of(name) for name in ("a", "b", "c", "a")]


def test_a_queue_called_other_or_unknown_uses_up_no_label() -> None:
    names = Names(1)

    assert ["other", "unknown", "a"] == [names.of(name) for name in ("other", "unknown", "a")]


def test_a_label_is_escaped_and_cut() -> None:
    names = Names()

    assert ["\\ud800", "x" * 200] == [names.of("\ud800"), names.of("x" * 1000)]
