"""Independent mistakes in a file: a mistake does not hide another, nor cause one."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.files.checking import assert_complaints, complaints

TASKS = """
from typing import Literal
from zsched import task

@task(queue="email")
def remind(
    edition: str, channel: Literal["push", "email", "sms"] = "push", copies: list[int] | None = None
) -> None: ...

@task(cron="0 9 * * *")
def digest(edition: str = "all") -> None: ...

def plain(*anything): ...
"""


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of tasks, ``papers``."""
    (tmp_path / "papers.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("papers", None)


@pytest.mark.usefixtures("papers")
def test_all_bad_arguments_are_reported_and_hide_no_other_mistake() -> None:
    text = """\
        [schedules."bad id"]
        func = "papers.remind"
        cron = "61 * * * *"
        tz = "EST"
        urgency = "soon"
        overlap = "never"
        catch_up = "x"
        catch_up_window = "1 w"
        prio = "high"
        kwargs = { channel = "fax", copies = [1, "2"], colour = "red", chanel = "push" }
        [schedules.b]
        func = "papers.remind"
        every = 60
        [schedules.b.kwargs]
        edition = 7
        """

    at = '[schedules."bad id"]: '
    task = "task papers.remind"
    assert_complaints(
        text,
        f"1: {at}id='bad id': ",
        f"3: {at}cron='61 * * * *': ",
        f"4: {at}tz='EST': ",
        f"5: {at}urgency='soon': not an urgency; ",
        f"6: {at}overlap='never': not one of its values; ",
        f"7: {at}catch_up='x': not one of its values; ",
        f"8: {at}catch_up_window='1 w': not a duration",
        f"9: {at}prio='high': no such option here; our option is priority=",
        f"10: {at}channel='fax': {task}: give one of 'push', 'email', 'sms'",
        f"10: {at}copies=[1, '2']: {task} wants list[int] | None: ",
        f"10: {at}colour='red': {task} has no such parameter; its parameters are edition: str, ",
        f"10: {at}chanel='push': {task} has no such parameter; did you mean channel?",
        f"10: {at}edition: {task} needs it; give edition=…",
        f"15: [schedules.b]: edition=7: {task} wants str, not int",
    )


CAUSES: list[tuple[str, list[str]]] = [  # of missing arguments: lines behind three others, and what is told
    ('kwarg = { edition = "a" }', ["4: kwarg={'edition': 'a'}: no such option here; our option is kwargs="]),
    ('kwargs_jsn = "{}"', ["4: kwargs_jsn='{}': no such option here; our option is kwargs="]),
    ('params = { edition = "a" }', ["4: params={'edition': 'a'}: no such option here; our option is args="]),
    ("body = { edition = 'a' }", ["4: body={'edition': 'a'}: no such option here; "]),
    ("edition = 'a'", ["4: edition='a': no such option here; ", "4: edition: an argument; write it in kwargs"]),
    ("kwargs_json = '{'", ["4: kwargs_json: not JSON"]),
    ("args = 5", ["4: args=5: not a list of arguments"]),
    ("kwarg = 1\nargs = [7]", ["4: kwarg=1: no such", "5: edition=7: task papers.remind wants str, not int"]),
    ("que = 'a'", ["1: edition: task papers.remind needs", "4: que='a': no such option here; our option is queue="]),
    ("args = ['a', 'push', [], 4]", ["4: args=['a', 'push', [], 4]: task papers.remind takes 3 by position"]),
    ("args = ['a']\nkwargs = { edition = 'b' }", ["5: edition='b': task papers.remind gets it by position too"]),
]  # fmt: skip
OPTIONS: list[tuple[str, list[str]]] = [  # lines behind two others, and what is told
    ('evry = "1h"', ["3: evry='1h': no such option here; our option is every="]),
    ('interval = 60', ["3: interval=60: no such option here; our option is every="]),
    ('evry = "1h"\nqueue = "a b"', ["3: evry=", "4: queue='a b': "]),
    ('quee = "x"', ["1: no rule", "3: quee='x': "]),
    ('every = "30 s"', ["3: every='30 s': not a duration"]),
    ('every = "30 s"\ncount = 0', ["3: every='30 s': not a duration", "4: count=0: "]),
    ('every = 60\ntz = "EST"\nstarts = 2030-01-01T00:00:00', ["4: tz='EST': "]),
    ('every = 60\novrlap = "queue"\noverlap_limit = 5', ["4: ovrlap='queue': no such", "5: overlap_limit=5: with"]),
    ('every = 60\noverlap = "que"\noverlap_limit = 5', ["4: overlap='que': "]),
    ('every = 60\noverlap = "que"\ncatch_up = "all"\ncatch_up_limit = 0', ["4: overlap", "6: catch_up_limit=0: "]),
    ('every = 60\ncatch_up = "al"\ncatch_up_limit = 5\ncatch_up_window = 5', ["4: catch_up='al': "]),
    ('every = 60\njitter = "x"\nexpires_after = 0\nurgency = "digest"', ["4: jitter='x':", "5: expires_after=0: "]),
    ('every = "9d"\nurgency = "digest"\njitter = "2d"\nexpires_after = 0', ["6: expires_after=0: "]),
    ('every = 86400\nurgency = "digst"\njitter = -5', ["4: urgency='digst': ", "5: jitter=-5: "]),
    ('cron = "0 0 31 2 *"\nqueue = "a b"', ["3: ", "4: queue='a b': "]),
]  # fmt: skip


@pytest.mark.usefixtures("papers")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        *((f"func = 'papers.remind'\nevery = 60\n{lines}", told) for lines, told in CAUSES),
        *((f"func = 'papers.plain'\n{lines}", told) for lines, told in OPTIONS),
    ],
)
def test_a_cause_is_reported_and_a_bad_option_hides_and_causes_no_other_mistake(text: str, told: list[str]) -> None:
    found = complaints(f"[schedules.a]\n{text}")

    short = [complaint.removeprefix("schedules.toml:").replace("[schedules.a]: ", "") for complaint in found]
    assert told == [complaint[: len(start)] for complaint, start in zip(short, told, strict=True)]


@pytest.mark.usefixtures("papers")
def test_a_function_missing_from_its_module_is_reported_with_the_nearest_name() -> None:
    assert_complaints(
        "[schedules.a]\nfunc = 'papers.digset'\nqueue = 'a b'\nkwargs = { edition = 7 }",
        "2: [schedules.a]: func='papers.digset': there is no digset in papers; did you mean digest?",
        "3: [schedules.a]: queue='a b': not",
    )


@pytest.mark.usefixtures("papers")
def test_a_default_that_cannot_be_read_makes_no_arguments_missing() -> None:
    entry = 'func = "papers.remind"\nevery = 60\n'

    assert_complaints(
        f'[defaults]\nkwargs_json = "{{"\njitter = "x"\n[schedules.a]\n{entry}[schedules.b]\n{entry}',
        "2: [defaults]: kwargs_json: not JSON",
        "3: [defaults]: jitter='x': ",
    )
