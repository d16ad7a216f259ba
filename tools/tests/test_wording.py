"""The lint rules for docstrings, names of tests and unique names."""

import pytest

from tests.sources import Source
from tools.lint import wording
from tools.lint.wording import bad_names, half_sentences, homonyms, stilted


def test_a_docstring_of_half_a_sentence_is_detected() -> None:
    text = (
        '"Whether."\nclass A:\n    "A noun."\n    async def b(self):\n        """\n        What it does.\n        """'
    )

    assert ["Whether.", "What it does."] == list(half_sentences(Source(text)))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('"""Yield how to go on, if there is more."""', "1: go on → continue"),
        ('x = 1\nf"{name} is no setting"', "2: is no  → is not a …"),
        ('f"nobody {verb}: nobody leads"', "1: nobody leads → no daemon is leading"),
        ('"the rest stays as it is"', "1: as it is → unchanged"),
        ('"as it is new, there is no archive; a list is no longer than its bound; RQ goes onward"', None),
        ("# it goes on as it is", None),
    ],
)
def test_a_stilted_phrase_in_a_message_or_docstring_is_detected(text: str, plain: str | None) -> None:
    found = list(stilted(Source(text)))

    assert [plain] == [each.partition(",")[0] for each in found] if plain else [] == found


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("what_is_no_page_says_which_there_are", "begins without a subject"),
        ("it_looks_again_only_after_its_time", "begins without a subject"),
        ("one_is_refused_at_the_start", "begins without a subject"),
        ("if_a_run_is_gone_rq_is_asked", "begins without a subject"),
        ("cancelling_it_returns_not_found", "has a pronoun before any noun"),
        ("looking_for_them_takes_no_time", "has a pronoun before any noun"),
        ("a_task_calls_those_that_wait", "has a phrase without a noun"),
        ("a_daemon_is_told_of_a_loss", "has a phrase without a noun"),
        ("runs_are_counted", "has less than 4 words"),
        ("a_barred_daemon_is_no_standby", "says what is not"),
        ("keys_in_use_are_no_leftovers", "says what is not"),
        ("a_search_goes_on_from_its_cursor", "says what is not"),
        ("an_entry_is_no_longer_than_its_bound", None),
        ("an_error_says_if_there_is_no_archive", None),
        ("cancelling_an_unknown_id_returns_not_found", None),
        ("one_shots_fire_beside_recurring_schedules", None),
        ("if_exists_keep_leaves_an_existing_schedule_alone", None),
        ("on_lost_is_stored_in_the_job", None),
        ("an_entry_touches_the_schedules_that_it_names", None),
    ],
)
def test_a_name_needs_a_subject_and_a_behaviour(name: str, fault: str | None) -> None:
    found = list(bad_names(Source(f"class TestX:\n    def test_{name}(self): ...\ndef {name}(): ...")))

    assert [f"test_{name} {fault}"] == [each.partition(":")[0] for each in found] if fault else [] == found


def test_a_name_in_two_modules_is_detected() -> None:
    functions = "def show(): ...\ndef _own(): ..."
    first = Source(f"class Run: ...\nclass _Own: ...\nRow = tuple[str, int]\n{functions}")
    second = Source(f"class Run: ...\nclass Row: ...\n_Own: TypeAlias = str\n{functions}")

    found = homonyms({"a.py": first, "b.py": second})

    assert {"Run", "_Own", "Row", "show"} == found.keys()
    assert all(modules == ["a.py", "b.py"] for modules in found.values())


def test_a_function_behind_a_command_may_have_the_name_of_another() -> None:
    function, command = Source("def show(): ..."), Source("@click.command()\ndef show(): ...")

    assert {} == homonyms({"a.py": function, "b.py": command})


def test_the_command_prints_each_place(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Source('"Whether."\nclass A: "It goes on."\ndef test_runs(): ...')
    monkeypatch.setattr(wording, "sources", lambda files, root=None: {"a/test_a.py": wrong, "a/test_b.py": wrong})

    assert 1 == wording.main()

    found = capsys.readouterr().out
    assert "a/test_a.py: Whether.\n    begin with a verb" in found
    assert "a/test_b.py: test_runs has less than 4 words" in found
    assert "A is defined in a/test_a.py and a/test_b.py" in found
    assert "a/test_b.py:2: goes on → continue" in found
