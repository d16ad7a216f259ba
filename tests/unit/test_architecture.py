"""
Who may import whom, and who may read a clock: the house's plan, held against the code.

Every module of zsched belongs to the row with the longest prefix of its name. A row says which rows
of zsched it may import, and which packages from outside; the standard library is free to all but the
core, which must stay pure.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "zsched"

SHARED = ("errors", "config", "events")  # what every layer but the core may use
EVERYTHING = (
    *SHARED,
    "embedded",
    "core",
    "archive",
    "storage",
    "daemon",
    "client",
    "files",
    "imports",
    "tasks",
    "metrics",
    "dashboard",
    "health",
    "cli",
    "demo",
    "bench",
)

FOR_TESTS = ("fakeredis", "pytest", "redis", "rq", "structlog")
FOR_PAGES = ("flask", "redis", "rq", "rq_dashboard", "structlog", "waitress", "werkzeug")

# row                 zsched's rows it may import                         packages from outside
MAY_IMPORT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "":               (("client", "core", "current", "errors", "tasks"), ()),
    "errors":         ((),                                               ()),
    "config":         (("errors", "config"),                             ()),
    "events":         (("errors", "core"),                               ("structlog",)),
    "embedded":       (("errors", "embedded"),                           ()),
    "core":           (("errors", "core"),                               ("croniter",)),
    "archive":        (("errors", "core", "archive"),                    ()),
    "storage":        (("errors", "config", "core", "storage"),          ("redis",)),
    "storage.rqjob":  (("errors", "core", "storage"),                    ("redis", "rq")),
    "client":         (("errors", "core", "storage", "client"),            ()),
    "current":        (("errors", "core", "storage"),                    ("rq",)),  # inside a worker's job
    "tasks":          (("errors", "core", "storage", "client", "current", "tasks"), ()),
    "tasks.signature": (("errors", "core"),                              ("typeguard",)),
    "tasks.chaining": (("errors", "core", "storage", "client", "current"), ("rq",)),
    "files":          (("errors", "core", "storage", "client", "tasks", "files"), ()),
    "imports":        (("errors", "core", "storage", "client", "files", "imports"), ()),
    "imports.rqcron": (("errors", "core", "storage", "imports"),         ("croniter", "rq")),
    "zone_rules":     ((),                                               ()),  # what this machine has
    "health":         (("errors", "config", "zone_rules", "core", "storage", "health"), ("redis",)),
    "daemon":         ((*SHARED, "zone_rules", "core", "archive", "storage", "health", "daemon"), ("structlog",)),
    "daemon.process": ((*SHARED, "core", "storage", "health", "daemon", "metrics"), ("structlog",)),
    "metrics":        ((*SHARED, "core", "storage", "health", "metrics"), ("prometheus_client", "structlog")),
    "dashboard":      (("errors", "config", "core", "storage", "dashboard"), FOR_PAGES),
    "testing":        ((*SHARED, "core", "storage", "client", "files", "daemon", "testing"), FOR_TESTS),
    "demo":           (EVERYTHING,                                       ("click", "structlog")),
    "bench":          (EVERYTHING,                                       ("click", "redis", "rq", "rq_scheduler")),
    "cli":            (EVERYTHING,                                       ("click", "structlog")),
    "cli.status.screen": (("errors", "cli"),                             ("rich",)),  # of the extra ops
    "cli.history":    (("errors", "core", "storage", "client", "cli"),   ("click",)),  # through Redis alone: no archive
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


@dataclass(frozen=True)
class Module:
    """One file: its name without the leading ``zsched.``, its row of the table, its source."""

    name: str
    row: str | None
    source: bytes

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source, self.name)

    def imports(self) -> Iterator[str]:
        """Full names of what it imports, also inside functions and under TYPE_CHECKING."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.name}, line {node.lineno}: imports are absolute here"
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def clock_reads(self) -> list[str]:
        """Where it names a function that reads a clock: ``time.time``, ``datetime.datetime.now``, …"""
        attributes = (node for node in ast.walk(self.tree) if isinstance(node, ast.Attribute))
        named = [*self.imports(), *(ast.unparse(node) for node in attributes)]
        return [name for name in named if is_clock_read(*name.split(".")[-2:])]


def is_clock_read(owner: str, function: str = "") -> bool:
    return function in CLOCK_READS.get(owner, ())


def row_of(name: str) -> str | None:
    """The row that *name* belongs to; None if it has none. Only the package itself is in the row ""."""
    parts = name.split(".") if name else []
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)] or [""]
    return next((prefix for prefix in prefixes if prefix in MAY_IMPORT), None)


def modules() -> list[Module]:
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        found.append(Module(name, row_of(name), file.read_bytes()))
    return found


MODULES = modules()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name or "zsched")
def test_a_module_imports_only_what_its_layer_may(module: Module) -> None:
    assert module.row is not None, f"zsched.{module.name} has no row in MAY_IMPORT: which layer is it?"
    ours, outside = MAY_IMPORT[module.row]
    wrong = []

    for name in module.imports():
        top, _, rest = name.partition(".")
        if top == "zsched":
            row = row_of(rest)
            # "from zsched import x" names the package itself, or a module of it
            if row is None or not (row == module.row or row in ours or row.partition(".")[0] in ours):
                wrong.append(name)
        elif top in sys.stdlib_module_names:
            if module.row == "core" and top in NOT_IN_CORE and not (module.name == CLOCK and top == "time"):
                wrong.append(name)
        elif top not in outside:
            wrong.append(name)

    assert wrong == [], f"zsched.{module.name} (layer {module.row!r}) must not import these"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name or "zsched")
def test_only_the_clock_module_reads_a_clock(module: Module) -> None:
    reads = [] if module.name == CLOCK else module.clock_reads()

    assert reads == [], f"zsched.{module.name} must be given the time"


@pytest.mark.parametrize("row", [row for row in MAY_IMPORT if row])
def test_no_two_layers_import_each_other(row: str) -> None:
    front_ends = {"cli", "demo", "bench"}  # one layer: commands that call each other

    mutual = [
        other
        for other in MAY_IMPORT[row][0]
        if other != row and row in MAY_IMPORT[other][0] and {row, other} - front_ends
    ]

    assert mutual == []


@pytest.mark.parametrize(
    ("source", "is_read"),
    [
        ("import time\ntime.time()", True),
        ("import datetime\ndatetime.datetime.now()", True),
        ("from time import monotonic", True),
        ("from datetime import date\ndate.today()", True),
        ("from datetime import datetime\ndatetime.fromtimestamp(0)", False),
        ("clock.now()", False),
        ("from zsched.core.clock import now", False),
    ],
)
def test_the_clock_rule_sees_a_clock_read(source: str, is_read: bool) -> None:
    module = Module("daemon.x", "daemon", source.encode())

    assert is_read == bool(module.clock_reads())
