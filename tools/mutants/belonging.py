"""
The tests for a mutant of a file: first those of its name, then those that import it, then its layer's.

A step is a few files that run at once; the next step runs when all of it passed.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_UNIT = "core daemon archive cli files tasks".split()
_LAYERS = {
    "zsched/core": tuple(f"tests/unit/{folder}" for folder in _UNIT),
    "zsched/lua": ("tests/lua",),
    "zsched/daemon": ("tests/unit/daemon", "tests/integration/test_daemon.py"),
}
# Where a name is not enough: what a module does is seen from elsewhere.
_BESIDES = {
    "zsched/lua/audit.lua": "tests/integration/auditor",
    "zsched/daemon/about.py": "tests/integration/test_daemons_seen.py tests/integration/test_questions.py",
    "zsched/daemon/archiver.py": "tests/integration/test_daemon_in_trouble.py tests/faults/test_archive_disk.py",
    **{
        f"zsched/daemon/{name}.py": "tests/faults/test_archivist.py"
        for name in ("archivist_messages", "archivist_process", "keeper")
    },
    **{
        f"zsched/daemon/{name}.py": "tests/integration/archive tests/faults/test_archives_agree.py"
        for name in ("correction", "covering", "merge", "recovery")
    },
    "zsched/daemon/daemon.py": "tests/integration/test_daemon_in_trouble.py tests/integration/test_daemon_ends.py"
    " tests/integration/test_health.py tests/integration/test_limits.py tests/integration/test_trimmer.py",
    "zsched/daemon/elector.py": "tests/integration/test_daemon.py tests/integration/test_daemon_in_trouble.py",
    "zsched/daemon/failures.py": "tests/integration/test_health.py",
    **{
        f"zsched/daemon/{name}.py": "tests/faults/test_archive_unknown.py tests/integration/archive"
        for name in ("follower", "intake")
    },
    "zsched/daemon/meter.py": "tests/integration/test_metrics.py",
    "zsched/daemon/own_archive.py": "tests/faults/test_identity.py",
    "zsched/daemon/process.py": "tests/integration/test_cli.py tests/integration/test_service_manager.py",
    "zsched/daemon/reload.py": "tests/integration/test_limits.py",
    **{f"zsched/daemon/{name}.py": "tests/integration/ends" for name in ("endings", "lost", "tracker")},
    "zsched/daemon/tick.py": "tests/integration/test_daemon.py tests/integration/test_policies.py"
    " tests/integration/test_daemon_between_scripts.py tests/faults/test_clock_jump.py",
}


def steps(file: str) -> list[tuple[str, ...]]:
    """Return the steps of *file*, both named from the root of the project; a test is listed once."""
    layer = next(layer for layer in _LAYERS if file.startswith(layer))
    module = file.removesuffix(".py").replace("/", ".")
    stem = Path(file).stem
    names = (stem, Path(file).parent.name) if Path(file).parent.parent.name == "core" else (stem,)  # core/triggers
    near = tuple(path for path in _tests() if _is_near(path, layer) and any(_is_named(path, name) for name in names))
    importing = re.compile(rf"{re.escape(module)}\b|from {re.escape(module.rpartition('.')[0])} import .*\b{stem}\b")
    users = tuple(path for path, text in _tests().items() if importing.search(text)) if file.endswith(".py") else ()
    users += tuple(_BESIDES.get(file, "").split())
    fast = [path for path in users if path.startswith("tests/unit")]
    slow = [path for path in users if path not in fast and layer != "zsched/core"]
    asked: set[str] = set()
    found = []
    for step in (near, fast, slow, _LAYERS[layer]):
        rest = tuple(path for path in dict.fromkeys(step) if path not in asked)
        asked.update(rest)
        if rest:
            found.append(rest)
    return found


@cache
def _tests() -> dict[str, str]:
    found = sorted(
        Path("tests").rglob("test_*.py"), key=lambda path: (not path.is_relative_to("tests/unit"), str(path))
    )
    return {str(path): path.read_text() for path in found}


def _is_named(path: str, stem: str) -> bool:
    return bool(re.fullmatch(rf"test_{stem}(_\w+)?", Path(path).stem)) or Path(path).parent.name == stem


def _is_near(path: str, layer: str) -> bool:
    if layer == "zsched/daemon":
        return not path.startswith(("tests/unit/core", "tests/lua", "tests/faults"))
    return path.startswith("tests/lua" if layer == "zsched/lua" else ("tests/unit/core", "tests/unit/triggers"))
