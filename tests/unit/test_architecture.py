"""
The layers of zsched: allowed imports and allowed clock reads, checked against the code.

Every module of zsched belongs to the row with the longest prefix of its name. A row says which rows of zsched it may
import, and which packages from outside. The standard library is free to all but the core, which must stay pure.
``bench`` lies beside zsched, is not installed, and is imported by nobody.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.documents import PROJECT
from tests.sources import PACKAGE, Source, sources

SHARED = ("errors", "config", "events")  # what every layer but the core may use
FRONT = "imports tasks metrics dashboard web health cli demo".split()
NOTED = ("daemon.loop", "daemon.meter")  # what a daemon measures, and where
EVERYTHING = (*SHARED, *"embedded core archive storage daemon notify client aio files".split(), *FRONT)
FOR_TESTS = ("fakeredis", "pytest", "redis", "rq", "structlog")
FOR_PAGES = ("flask", "redis", "rq", "rq_dashboard", "structlog", "werkzeug")

# row                 zsched's rows it may import                         packages from outside
MAY_IMPORT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "":               (("aio", "client", "core", "current", "errors", "tasks"), ()),
    "errors":         ((),                                               ()),
    "config":         (("errors", "config"),                             ()),
    "config.parsing": (("errors", "config", "core"),                     ()),  # names that options have, too
    "config.reading": (("errors",),                                      ()),  # files that people give
    "events":         (("errors", "core"),                               ("structlog",)),
    "embedded":       (("errors", "embedded"),                           ()),
    "core":           (("errors", "core"),                               ("croniter",)),
    "core.triggers.zones": (("errors", "zone_rules", "core"),            ()),  # which data lacks a zone
    "archive":        (("errors", "core", "archive"),                    ()),
    "storage":        (("errors", "config", "core", "storage"),          ("hiredis", "redis")),
    "storage.answering": (("errors", "core", "archive", "storage"),      ()),  # for daemons and clients
    "storage.folded": (("errors", "core", "archive", "storage"),         ()),
    "storage.rqjob":  (("errors", "core", "storage"),                    ("redis", "rq")),
    "storage.rqoptions": (("errors", "core"),                            ("rq",)),
    "client":         (("errors", "config", "core", "storage", "client"),  ()),
    "client.ics":     (("errors", "core"),                               ("icalendar",)),  # of the extra ics
    "aio":            (("errors", "core", "storage", "client", "aio"),   ("greenlet", "redis")),  # of the extra async
    "cluster":        (("errors", "config", "storage"),                  ("redis",)),  # for RQ's workers
    "current":        (("errors", "core", "storage"),                    ("rq",)),  # inside a worker's job
    "rq":             (("errors", "core", "storage", "current", "rq"),   ("rq",)),  # in workers
    "rq.guard":       (("errors", "config", "core", "storage", "tasks", "rq"),  ("rq",)),
    "rq.workers":     (("core", "storage", "current", "rq"),             ("redis", "rq")),
    "tasks":          (("errors", "core", "storage", "client", "current", "tasks"), ()),
    "tasks.signature": (("errors", "core"),                              ("typeguard",)),
    "tasks.chaining": (("errors", "config", "core", "storage", "client", "current"), ("rq",)),
    "files":          (("errors", "config.reading", "core", "storage", "client", "tasks", "files"), ()),
    "imports":        (("errors", "core", "storage", "client", "files", "imports"), ()),
    "imports.rqcron": (("errors", "core", "storage", "imports"),         ("croniter", "rq")),
    "zone_rules":     ((),                                               ()),  # what this machine has
    "health":         (("errors", "config", "zone_rules", "core", "storage", "health"), ("redis",)),
    "health.checks_web": (("errors", "core", "storage", "health", "web.accounts_file"), ()),
    "daemon":         ((*SHARED, "zone_rules", "core", "archive", "storage", "health", "daemon"), ("structlog",)),
    "daemon.notifier": (("errors", "config", "core", "archive", "storage", "health", "daemon", "notify"), ()),
    "daemon.teller":  (("errors", "config", "core", "archive", "storage", "health", "daemon", "notify"), ()),
    "daemon.process": ((*SHARED, "core", "storage", "health", "daemon", "metrics"), ("structlog",)),
    "daemon.archivist": ((*SHARED, "core", "storage", "daemon", "metrics"), ("structlog",)),
    "daemon.loop":    (("errors", "core"),                              ("structlog",)),  # all threads
    "daemon.meter":   (("core",),                                        ()),  # what metrics override
    "daemon.supervisor": (("core", "health"),                            ()),  # zsched web has one, too
    "notify":         (("errors", "config", "core", "notify"),           ("httpx",)),  # of the extra notify
    "metrics":        ((*SHARED, "core", "storage", "health", *NOTED, "metrics"),
                       ("prometheus_client", "structlog")),
    "dashboard":      (("errors", "config", "core", "storage", "dashboard"), FOR_PAGES),
    "web":            (("", "errors", "config", "aio", "client", "core", "storage", "health", "daemon.supervisor",
                        "metrics", "dashboard", "web"),
                       ("fastapi", "jinja2", "starlette", "structlog", "uvicorn")),
    "web.accounts":   (("errors", "config", "core"),                     ()),
    "web.accounts_file": (("errors", "config", "web.accounts"),          ()),  # for the command line and doctor, too
    "web.rq":         (("storage", "dashboard", "web"),                 ("a2wsgi", "starlette")),
    "testing":        ((*SHARED, "core", "storage", "aio", "client", "files", "daemon", "rq", "testing"), FOR_TESTS),
    "demo":           (EVERYTHING,                                       ("click", "structlog")),
    "bench":          (EVERYTHING,  ("click", "fastapi", "redis", "rq", "rq_scheduler", "starlette")),
    "cli":            (EVERYTHING,                                       ("click", "structlog")),
    "cli.status_screen": (("errors", "core", "storage", "health", "cli"), ("rich",)),  # of the extra ops
    "cli.worker":     (("errors", "config", "events", "core", "storage", "health", "daemon", "rq", "cli"),
                       ("click", "redis")),
    "cli.parameters": (("errors", "config.reading", "core", "files", "cli"),               ("click", "dateutil")),
    "cli.history":    (("errors", "core", "storage", "health", "client", "cli"), ("click",)),  # not: archive
    "cli.log":        (("errors", "core", "storage", "client", "cli"),   ("click",)),
}  # fmt: skip

# In the core nothing happens but computing: no IO, no processes or threads, no chance, no environment.
NOT_IN_CORE = frozenset(
    "asyncio concurrent ctypes fcntl glob http io logging mmap multiprocessing os pathlib random sched secrets select "
    "selectors shutil signal socket sqlite3 ssl subprocess tempfile threading time urllib uuid".split()
)

CLOCK = "core.clock"  # the one module that reads a clock, so also the one in the core that imports time
CLOCK_READS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "localtime", "gmtime"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}


# Rows; what a thread raises must not be lost, but in a measurement. A worker's thread logs as RQ does.
MAY_START_THREADS = ("daemon.loop", "bench", "rq.workers")
THREADS = {"threading.Thread", "threading.Timer", "concurrent.futures"}


@dataclass(frozen=True)
class Module:
    """One file: its name without a leading ``zsched.``, its row of the table, its source."""

    name: str
    row: str | None
    source: Source

    @property
    def named(self) -> set[str]:
        """Full names of its imports, and attributes as written: ``time.time``."""
        return {*self.source.imports, *self.source.attributes}

    def clock_reads(self) -> set[str]:
        """Names of functions that read a clock: ``time.time``, ``datetime.datetime.now``, …"""
        return {name for name in self.named if is_clock_read(*name.split(".")[-2:])}

    def threads(self) -> set[str]:
        """Names of functions and classes that start a thread."""
        return {name for name in self.named if any(f"{name}.".startswith(f"{each}.") for each in THREADS)}


def is_clock_read(owner: str, function: str = "") -> bool:
    return function in CLOCK_READS.get(owner, ())


def row_of(name: str) -> str | None:
    """The row that *name* belongs to; None if it has none. Only the package itself is in the row ""."""
    parts = name.split(".") if name else []
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)] or [""]
    return next((prefix for prefix in prefixes if prefix in MAY_IMPORT), None)


def modules() -> Iterator[Module]:
    files = [*PACKAGE.rglob("*.py"), *(PROJECT / "bench").rglob("*.py")]
    for path, source in sources(files, PROJECT).items():
        parts = path.removesuffix(".py").split("/")
        name = ".".join(part for part in parts if part != "__init__").removeprefix("zsched").removeprefix(".")
        yield Module(name, row_of(name), source)


def may_import(module: Module, name: str) -> bool:
    """
    Return True if the table allows *module* to import *name*; "from zsched import x" names the package, or a module of
    it.
    """
    ours, outside = MAY_IMPORT[module.row or ""]
    top, _, rest = name.partition(".")
    if top in ("zsched", "bench"):
        row = row_of(rest if top == "zsched" else name)
        return row is not None and (row == module.row or row in ours or row.partition(".")[0] in ours)
    if top in sys.stdlib_module_names | {"_typeshed"}:  # the latter is for mypy alone
        is_of_clock = module.name == CLOCK and top == "time"
        return module.row != "core" or top not in NOT_IN_CORE or is_of_clock
    return top in outside


MODULES = list(modules())


def test_a_module_imports_only_modules_that_its_layer_may_import() -> None:
    wrong = {
        module.name: [name for name in module.source.imports if not may_import(module, name)] for module in MODULES
    }

    assert {} == {name: found for name, found in wrong.items() if found}


def test_every_module_has_a_layer() -> None:
    assert [] == [module.name for module in MODULES if module.row is None]


def test_commands_wait_without_a_lock_so_that_ctrl_c_finds_none() -> None:
    waiting = [
        name for name, source in sources(PACKAGE.glob("cli/**/*.py")).items() if "Event" in source.attribute_names
    ]

    assert [] == waiting


def test_only_the_clock_module_reads_a_clock() -> None:
    reads = {module.name: module.clock_reads() for module in MODULES if module.name != CLOCK}

    assert {} == {name: found for name, found in reads.items() if found}


def test_only_the_loop_module_starts_a_thread() -> None:
    """Other modules use ``zsched.daemon.loop``, which reports the exceptions of a thread."""
    threads = {module.name: module.threads() for module in MODULES if module.row not in MAY_START_THREADS}

    assert {} == {name: found for name, found in threads.items() if found}


@pytest.mark.parametrize("row", [row for row in MAY_IMPORT if row])
def test_two_layers_never_import_each_other(row: str) -> None:
    front_ends = {"cli", "demo"}  # one layer: commands that call each other

    others = [other for other in MAY_IMPORT[row][0] if other != row and {row, other} - front_ends]

    assert [] == [other for other in others if row in MAY_IMPORT[other][0]]


def test_clients_workers_and_the_command_line_alone_read_the_file_of_signing_keys() -> None:
    readers = {
        name.partition("/")[0]
        for name, source in sources(PACKAGE.rglob("*.py")).items()
        if {"keys_file", "client_options"} & set(source.attribute_names)
        or any("KeyFile" in each for each in source.imports)
    }

    assert {"cli", "client", "rq", "storage", "tasks", "web"} == readers - {"config"}


def test_the_suite_imports_no_tool() -> None:
    files = sources((PROJECT / "tests").rglob("*.py"), PROJECT)

    assert [] == [file for file, source in files.items() if any(name.startswith("tools.") for name in source.imports)]


def test_a_test_of_the_core_has_the_name_and_the_folder_of_its_module() -> None:
    core, tests = PACKAGE / "core", PROJECT / "tests/unit/core"

    astray = []
    for file in tests.rglob("test_*.py"):
        folder = core / file.parent.relative_to(tests)
        names = {folder.name, *(module.stem for module in folder.glob("*.py"))}
        if not any(re.match(rf"test_{name}(_|$)", file.stem) for name in names):
            astray.append(file.relative_to(tests).as_posix())
    assert [] == astray
