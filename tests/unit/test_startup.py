"""
Imports at the start: a program imports only modules that it uses. Modules are counted, not seconds.

A program runs in a separate process and prints the modules that it has imported at its end.
"""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

import zsched
from tests.sources import PACKAGE
from zsched.cli import program
from zsched.cli.program import RARE, LazyCommand

pytestmark = pytest.mark.true_start

SHOWN = "; import sys; print(*sys.modules)"
CALLED = "from zsched.cli import main; import sys; sys.argv = ['zsched', {}]; main()"
OUTSIDE = {"click", "croniter", "dateutil", "fakeredis", "redis", "rich", "rq", "sqlite3", "structlog", "typeguard"}
INSIDE = {f"zsched.{name}" for name in ("archive", "cli", "client", "core", "daemon", "files", "health", "tasks")}
OF_THE_PAST = {"zsched.client.answers", "zsched.core.log", "zsched.core.story.story", "zsched.storage.history_reader"}


def last_line(code: str) -> str:
    """Return the last line of a process that ran *code*."""
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return told.splitlines()[-1]


def imported_by(code: str) -> set[str]:
    """Return the modules of a process that ran *code*, which may print lines of its own before."""
    return set(last_line(code + SHOWN).split())


def test_the_package_alone_imports_no_other_package() -> None:
    assert not imported_by("import zsched") & (OUTSIDE | INSIDE)


def test_a_client_imports_redis_and_few_modules_more() -> None:
    of_redis = imported_by("import redis; redis.Redis.from_url('redis://localhost')")
    modules = imported_by("import zsched; zsched.Client.from_url('redis://localhost')")

    more = modules - of_redis
    assert {name for name in more if not name.startswith("zsched")} <= {"pwd"}
    assert len(more) <= 32  # two are folders of the core: a line each


def test_a_client_that_schedules_imports_nothing_for_other_calls() -> None:
    modules = imported_by("import zsched; zsched.Client.from_url('redis://localhost')._putting")

    assert {"redis"} == modules & OUTSIDE
    assert {"zsched.client", "zsched.core"} == modules & INSIDE
    assert not modules & OF_THE_PAST


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_command_line_imports_click_alone_until_a_command_is_called(option: str) -> None:
    modules = imported_by(CALLED.format(repr(option)))

    assert {"click"} == modules & OUTSIDE
    assert not modules & {"zsched.client", "zsched.config", "zsched.core.model", "zsched.cli.listing"}


def test_a_command_imports_nothing_for_other_commands() -> None:
    modules = imported_by(CALLED.format("'ls', '--help'"))

    assert {"click", "redis"} == modules & OUTSIDE
    assert {"zsched.cli", "zsched.client", "zsched.core"} == modules & INSIDE
    assert not modules & OF_THE_PAST


def test_a_listing_generates_few_classes_at_its_start() -> None:
    counted = "; from dataclasses import is_dataclass as d; print(sum(map(d, {c for m in list(sys.modules.values())"
    of_ours = " for c in vars(m).values() if isinstance(c, type) and c.__module__.startswith('zsched.')})))"

    assert int(last_line(CALLED.format("'ls', '--help'") + counted + of_ours)) <= 32  # half a millisecond each


def test_the_end_of_a_command_searches_no_modules_for_garbage() -> None:
    code = "; import gc; print(gc.get_freeze_count() > 100 * len(gc.get_objects()))"

    assert "True" == last_line(CALLED.format("'--version'") + code)


def test_every_public_name_can_be_imported_and_an_unknown_name_is_an_attribute_error() -> None:
    assert set(zsched.__all__) <= set(dir(zsched))
    assert [] == [name for name in zsched.__all__ if not hasattr(zsched, name)]
    with pytest.raises(AttributeError, match="module 'zsched' has no attribute 'Clinet'"):
        _ = zsched.Clinet


def test_a_type_checker_and_the_program_import_a_public_name_from_the_same_module() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" == ast.unparse(node.test))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]

    assert {alias.name: node.module for node in imports for alias in node.names} == zsched._HOMES


@pytest.mark.parametrize("name", program.commands)
def test_a_command_is_found_under_its_name(name: str) -> None:
    assert name == program.commands[name].load().name


def test_a_short_flag_has_the_same_meaning_in_every_command() -> None:
    def flags(command: click.Command) -> Iterator[tuple[str, ...]]:
        found = command.load() if isinstance(command, LazyCommand) else command
        yield from (tuple(each.opts) for each in found.params if len(each.opts) > 1)
        for child in found.commands.values() if isinstance(found, click.Group) else ():
            yield from flags(child)

    meanings = {*flags(program), ("-h", "--help")}

    assert sorted({short for short, _ in meanings}) == sorted(short for short, _ in meanings)


def test_the_list_of_commands_cuts_no_line() -> None:
    context = program.make_context("zsched", [], resilient_parsing=True)
    context.meta[RARE] = True
    lines = program.get_help(context).splitlines()
    listed = {line.split()[0]: line for line in lines if line.startswith("  ") and line.split()[0] in program.commands}

    assert set(program.commands) == set(listed)
    assert not [line for line in listed.values() if "..." in line]


def test_the_error_without_greenlet_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("zsched.aio")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "greenlet", None)
    monkeypatch.delitem(vars(zsched), "AsyncClient", raising=False)

    with pytest.raises(ImportError, match=r"pip install 'zsched\[async\]'"):
        importlib.import_module("zsched.aio")
