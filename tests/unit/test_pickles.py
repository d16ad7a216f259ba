"""
Modules that open a pickle like a worker, which runs it: checked against the sources (SECURITY.md, "Data is never
code").
"""

from __future__ import annotations

import ast

import pytest

from tests.sources import PACKAGE, Source, sources

PICKLES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "shelve", "yaml"}

# Who imports such a module, and what it names of it. ``unpickling`` subclasses the reader: it looks up no class but
# plain ones (tests/unit/test_unpickling.py).
IMPORTERS = {
    "daemon/archivist_messages.py": {"pickle.loads", "pickle.dumps"},  # over a socket that only its own processes have
    "rq/plain.py": {"pickle.dumps", "pickle.HIGHEST_PROTOCOL"},
    "storage/rqjob.py": {"pickle.loads", "pickle.dumps", "pickle.HIGHEST_PROTOCOL"},
    "storage/unpickling.py": {"pickle.Unpickler"},
}
# Who asks the encoder of ``rqjob`` to run what it opens, and why that is no surprise.
RUNNERS = {
    "client/updating.py": "Client(runs_pickles=True)",
    "imports/rqjobs.py": "zsched import rq-scheduler and rq-scheduled",
    "tasks/chaining.py": "inside a worker, which has run that very payload",
    "testing/runs.py": "inside a test, which has put that payload",
}
# RQ's jobs and results unpickle when they are asked for what they hold. Who knows them:
KNOW_JOBS = {
    "current.py": "inside a worker",
    "rq/attempts.py": "inside a worker",
    "rq/guarded.py": "inside a worker",
    "rq/job.py": "inside a worker",
    "rq/plain.py": "inside a worker",
    "rq/workers.py": "inside a worker",
    "tasks/chaining.py": "inside a worker",
    "testing/worker.py": "a worker of a test",
    "dashboard/jobs.py": "in a class of its own, which reads without running anything",
}
OF_JOBS = ("rq.job", "rq.results", "rq.queue", "rq.worker", "rq.registry", "rq.serializers", "rq.executions")
OF_JOBS += ("rq.Queue", "rq.Worker", "rq.SimpleWorker", "rq.get_current_job", "rq.group", "rq.scheduler")


def knows_pickles(source: Source) -> bool:
    return any(name.partition(".")[0] in PICKLES for name in source.imports)


def of_pickles(source: Source) -> set[str]:
    """Return the names that *source* uses of a module that unpickles."""
    taken = {name for name in source.imports if "." in name}
    return {name for name in source.attributes | taken if name.partition(".")[0] in PICKLES}


def asks_to_run(source: Source) -> bool:
    """Return True if a call of ``open`` or ``options`` has anything but ``runs=False``."""
    asked = [
        keyword
        for call in source.nodes
        if isinstance(call, ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("open", "options")
        for keyword in call.keywords
        if keyword.arg in ("runs", None)
    ]
    return any(not (isinstance(one.value, ast.Constant) and one.value.value is False) for one in asked)


def knows_jobs(source: Source) -> bool:
    return any(name == "rq" or f"{name}.".startswith(f"{each}.") for name in source.imports for each in OF_JOBS)


SOURCES = sources(PACKAGE.rglob("*.py"))


def test_only_the_listed_modules_use_functions_of_pickle() -> None:
    assert IMPORTERS == {name: of_pickles(source) for name, source in SOURCES.items() if knows_pickles(source)}


def test_only_the_listed_modules_ask_to_run_pickles_outside_of_workers() -> None:
    runners = {name for name, source in SOURCES.items() if asks_to_run(source)} - {"storage/rqjob.py"}

    assert set(RUNNERS) == runners


def test_modules_of_daemon_archive_and_command_line_do_not_use_rqs_jobs() -> None:
    assert set(KNOW_JOBS) == {name for name, source in SOURCES.items() if knows_jobs(source)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import pickle\npickle.loads(data)", {"pickle.loads"}),
        ("from pickle import loads", {"pickle.loads"}),
        ("def f():\n    import dill", set()),
    ],
)
def test_the_rule_detects_an_opened_pickle(text: str, found: set[str]) -> None:
    assert (True, found) == (knows_pickles(Source(text)), of_pickles(Source(text)))


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("encoder.open(data, runs=True)", True),
        ("self._encoder.options(fields, runs=self._runs)", True),
        ("encoder.open(data, **more)", True),
        ("encoder.open(data, runs=False)", False),
        ("encoder.open(data)", False),
    ],
)
def test_the_rule_detects_a_call_that_asks_to_run_pickles(text: str, asks: bool) -> None:
    assert asks is asks_to_run(Source(text))


@pytest.mark.parametrize(
    "text", ["from rq.job import Job", "import rq.job", "import rq", "from rq import Queue", "import rq.results"]
)
def test_the_rule_detects_a_module_that_uses_jobs(text: str) -> None:
    assert knows_jobs(Source(text))
    assert not knows_jobs(Source("from rq import Retry"))
