"""Rules that tests check in sources and pages: each sees the things that it is for."""

from collections.abc import Callable
from typing import Any

import pytest

from tests import prose
from tests.adding import read_pages
from tests.documents import PROJECT
from tests.prose import LONGEST, Figures, sentences, words
from tests.sources import Source
from tests.unit.test_architecture import Module
from tests.unit.test_documents import astray, dialect
from tests.unit.test_pickles import asks_to_run, knows_jobs, knows_pickles, of_pickles

DILL = "def f():\n    import dill"
ASKED = ["open(data, runs=True)", "options(fields, runs=self._runs)", "open(data, **more)"]
NOT_ASKED = ["open(data, runs=False)", "open(data)"]
JOBS = ["from rq.job import Job", "import rq.job", "import rq", "from rq import Queue", "import rq.results"]
LOADS = {"import pickle\npickle.loads(data)": {"pickle.loads"}, "from pickle import loads": {"pickle.loads"}}
DETECTED: dict[Callable[[Source], object], dict[str, Any]] = {
    of_pickles: LOADS | {DILL: set()},
    knows_pickles: dict.fromkeys([*LOADS, DILL], True),
    asks_to_run: {f"encoder.{call}": call in ASKED for call in (*ASKED, *NOT_ASKED)},
    knows_jobs: dict.fromkeys(JOBS, True) | {"from rq import Retry": False},
}


@pytest.mark.parametrize(
    ("source", "reads", "starts"),
    [
        ("import time\ntime.time()", True, False),
        ("import datetime\ndatetime.datetime.now()", True, False),
        ("from time import monotonic", True, False),
        ("from datetime import date\ndate.today()", True, False),
        ("from datetime import datetime\ndatetime.fromtimestamp(0)", False, False),
        ("clock.now()", False, False),
        ("from zsched.core.clock import now", False, False),
        ("import threading\nthreading.Thread(target=print)", False, True),
        ("from threading import Thread", False, True),
        ("from concurrent.futures import ThreadPoolExecutor", False, True),
        ("import threading\nthreading.Lock()", False, False),
    ],
)
def test_the_rules_detect_a_clock_read_and_a_started_thread(source: str, reads: bool, starts: bool) -> None:
    module = Module("daemon.x", "daemon", Source(source))

    assert (reads, starts) == (bool(module.clock_reads()), bool(module.threads()))


@pytest.mark.parametrize(
    ("rule", "text", "found"), [(rule, *row) for rule, texts in DETECTED.items() for row in texts.items()]
)
def test_a_rule_detects_what_it_is_for(rule: Callable[[Source], object], text: str, found: object) -> None:
    assert found == rule(Source(text))


def test_a_page_that_names_missing_files_or_symbols_is_detected() -> None:
    [page] = read_pages(
        "# Adding\n\n## A thing\n\n| file | add |\n|---|---|\n| `zsched/core/clock.py` | `SystemClock`, `Sundial` |\n"
        "| `zsched/core/clock.py2` | it |\n| `zsched/lua/lib/place.lua` | `leave`, `take_leave` |\n"
    )

    missing = ["Sundial in zsched/core/clock.py", "zsched/core/clock.py2", "take_leave in zsched/lua/lib/place.lua"]
    assert missing == astray(page)


def test_code_tables_headings_and_links_are_left_out_of_sentences() -> None:
    text = (
        "# A heading of four words\n\nOne two `three four` [five](six.md). Seven\neight.\n\n- nine ten\n- eleven\n\n"
        "| a | table |\n|---|---|\n\n```sh\nmake run\n```\n<!-- a comment -->\n![a picture](x.png)\n"
    )

    assert ["One two Code five.", "Seven eight.", "nine ten", "eleven"] == sentences(text)
    assert [4, 2, 2, 1] == [words(each) for each in sentences(text)]


def test_a_long_sentence_and_a_phrase_of_the_dialect_are_seen() -> None:
    long = "word " * (LONGEST + 1)

    assert [long.strip()] == Figures(sentences(long)).long
    assert ["told → said, shown, reported; or name who reports what to whom: What is told."] == dialect("What is told.")


def test_the_figures_of_a_page_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    prose.main([str(PROJECT / "README.md")])

    assert "README.md" in capsys.readouterr().out
