"""
The pages of docs/reference that are made from the code. ``make pages`` writes them; a test compares them.

=========== ==============================================
options     ``zsched.core.options.table``
task_call   the same, as types: ``docs.task_call``
commands    the help texts of ``zsched``
settings    the comments of ``config/zsched.toml``
metrics     the families in ``zsched.metrics``: those of collectors
errors      the classes in ``zsched.errors``
python      signatures and docstrings: ``docs.python_page``
=========== ==============================================
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final
from unittest.mock import patch

import click

import zsched
from docs.python_page import python
from docs.task_call import task_call
from zsched import errors
from zsched.cli import program
from zsched.core.options.forms import Form, ValueType
from zsched.core.options.table import FOR_ENQUEUE, FOR_UPDATE, ONLY_ENQUEUE, OPTIONS

PROJECT: Final = Path(__file__).parents[1]
_KINDS: Final = ("counter", "gauge", "histogram")


def options() -> Iterator[str]:
    """Yield the lines of the page of options."""
    yield "# Options of a schedule\n"
    yield "This page lists every option of `client.schedule`. The command line and files have the same names.\n"
    yield "- `client.enqueue` takes the options marked *enqueue*, and `client.update` those marked *update*."
    yield "- The command line writes `--catch-up` for `catch_up`, and a file writes `catch_up = …`."
    yield "- *Elsewhere* is the name in other schedulers. Error messages suggest our name for it.\n"
    yield "| option | value | meaning | also of | elsewhere |"
    yield "|---|---|---|---|---|"
    for name, option in OPTIONS.items():
        also = [call for call, names in (("enqueue", FOR_ENQUEUE), ("update", FOR_UPDATE)) if name in names]
        elsewhere = " ".join(f"`{each}`" for each in option.elsewhere.split())
        meaning = option.help_with(lambda other: f"`{other}`")
        yield f"| `{name}` | {_value(option.form)} | {meaning} | {', '.join(also)} | {elsewhere} |"
    yield "\n## Only of `client.enqueue`\n"
    yield "| option | value | meaning | elsewhere |"
    yield "|---|---|---|---|"
    for name, option in ONLY_ENQUEUE.items():
        elsewhere = " ".join(f"`{each}`" for each in option.elsewhere.split())
        yield f"| `{name}` | {_value(option.form)} | {option.help} | {elsewhere} |"


def _value(form: Form) -> str:
    if form.value_type is ValueType.WORD:
        return ", ".join(f"`{word}`" for word in form.words)
    return "true, false" if form.value_type is ValueType.BOOLEAN else f"`{form.metavar}`"


def commands() -> Iterator[str]:
    """Yield the lines of the page of commands."""
    yield "# Commands\n"
    yield "This page has every command, with its options and examples. `zsched COMMAND --help` prints the same.\n"
    shared = {each for param in program.params for each in param.opts}
    yield from _command(program, "zsched", frozenset())
    for name, command in program.commands.items():
        yield from _command(command, f"zsched {name}", shared)


def _command(command: click.Command, path: str, left_out: AbstractSet[str]) -> Iterator[str]:
    """Yield the section of a command, without the options *left_out*, and those of its own commands."""
    load = getattr(command, "load", None)
    command = load() if load else command
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    shown = [str(each.name).upper() + ("…" if each.nargs < 0 else "") for each in arguments]
    inner = command.commands if isinstance(command, click.Group) else {}
    yield f"## {path}\n"
    yield f"`{' '.join([path, '[OPTIONS]', *shown, *(['COMMAND …'] if inner else [])])}`\n"
    for block in inspect.cleandoc(command.help or "").split("\n\n"):
        text = block.replace("\f", "")
        kept = text.partition("\b\n")[2]
        yield f"```text\n{kept}\n```\n" if kept else f"{text}\n"
    options = [each for each in command.params if isinstance(each, click.Option) and not left_out & {*each.opts}]
    options = [each for each in options if not each.hidden]
    if options:
        yield "| option | meaning |"
        yield "|---|---|"
    for option in options:
        names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
        choices = "|".join(option.type.choices) if isinstance(option.type, click.Choice) else ""
        value = (option.metavar or choices).replace("|", "\\|")
        yield f"| {names}{f' {value}' if value else ''} | {option.help} |"
    yield ""
    for name, child in inner.items() if path != "zsched" else ():
        yield from _command(child, f"{path} {name}", left_out)


def settings() -> Iterator[str]:
    """Yield the lines of the page of settings."""
    yield "# Settings\n"
    yield "This page lists every key of `config/zsched.toml`, with its unit and its default."
    yield "A value comes from an option, else from the environment, else from the file, else it is the default.\n"
    text = (PROJECT / "config" / "zsched.toml").read_text()
    section, is_named = "", False
    for block in re.split(r"\n\n+", text):
        comments, examples = list[str](), list[str]()
        for line in block.splitlines():
            if head := re.fullmatch(r"#?\[([a-z]+)(\.[a-z]+)?\]", line):
                section, is_named = head[1], head[2] is not None
                yield f"## [{section}{'.<name>' if is_named else ''}]\n"
                if comments:
                    yield f"{' '.join(comments)}\n"
                comments = []
            elif re.fullmatch(r"#[a-z_]+ = .*", line):
                examples.append(line[1:])
            else:
                if examples:
                    yield from _setting(section, is_named, examples, comments)
                    comments, examples = list[str](), list[str]()
                comments.append(line.removeprefix("#").strip())
        if examples:
            yield from _setting(section, is_named, examples, comments)


def _setting(section: str, is_named: bool, examples: list[str], comments: list[str]) -> Iterator[str]:
    names = [example.partition(" ")[0] for example in examples]
    yield f"### {', '.join(f'`{name}`' for name in names)}\n"
    yield " ".join(comments) + "\n"
    yield "```toml"
    for name, example in zip(names, examples, strict=True):
        variable = "_".join(filter(None, ("ZSCHED", section, name))).upper()
        yield example if is_named else f"{example}  # {variable}"
    yield "```\n"


def metrics() -> Iterator[str]:
    """Yield the lines of the page of metrics, by the calls in the collectors that make families."""
    yield "# Metrics\n"
    yield "This page lists every metric that a daemon serves at `/metrics`.\n"
    yield from _families("collector.py")
    yield "\n## Of `zsched web`\n"
    yield "`zsched web` serves these at `/metrics` of its own address.\n"
    yield from _families("web_collector.py")


def _families(file: str) -> Iterator[str]:
    """Yield the table of the families of a collector."""
    yield "| metric | type | labels | meaning |"
    yield "|---|---|---|---|"
    tree = ast.parse((PROJECT / "zsched" / "metrics" / file).read_text())
    for function in tree.body:
        help_text = ""
        nodes = [node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.Call)]
        for node in sorted(nodes, key=lambda node: (node.lineno, isinstance(node, ast.Call))):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "help":
                help_text = ast.literal_eval(node.value)
            elif isinstance(node, ast.Call):
                yield from _metric(node, help_text)


def _metric(call: ast.Call, help_text: str) -> Iterator[str]:
    """Yield the row of one call; nothing if the call makes no family, or makes one of a name that is not known here."""
    kind = ast.unparse(call.func)
    if kind not in _KINDS or not isinstance(call.args[0], ast.Constant):
        return
    name = f"zsched_{call.args[0].value!s}{'_total' if kind == 'counter' else ''}"
    meaning = str(call.args[1].value) if isinstance(call.args[1], ast.Constant) else help_text
    labels = [each for part in [*call.args[3:], *(word.value for word in call.keywords)] for each in _texts(part)]
    yield f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {meaning} |"


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.List):
        yield from (str(each.value) for each in node.elts if isinstance(each, ast.Constant))


def error_classes() -> Iterator[str]:
    """Yield the lines of the page of errors."""
    yield "# Errors\n"
    yield "Every error of zsched is a `ZschedError`. With `--json` the command line prints its name as `type`.\n"
    yield "| error | is also | meaning |"
    yield "|---|---|---|"
    for name, error in [*vars(errors).items(), ("RowsRefused", zsched.RowsRefused)]:  # beside its result
        if inspect.isclass(error) and issubclass(error, errors.ZschedError) and error is not errors.ZschedError:
            text = " ".join(inspect.cleandoc(error.__doc__ or "").replace("``", "`").split())
            bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__ if base is not errors.ZschedError)
            shown = f"zsched.{name}" if hasattr(zsched, name) else f"zsched.errors.{name}"
            yield f"| `{shown}` | {bases} | {text} |"


PAGES: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "options": options, "commands": commands, "settings": settings, "metrics": metrics, "errors": error_classes,
    "python": python, "task_call": task_call,
}  # fmt: skip


def page(name: str) -> str:
    """Return the text of a page, by its name in PAGES."""
    with patch.dict("os.environ", clear=True):  # defaults that are shown come from no variable
        lines = [*PAGES[name]()]
    made_by = [] if path(name).suffix == ".pyi" else ["", "<!-- Made by docs/pages.py: `make pages` writes it. -->"]
    return "\n".join([*lines, *made_by]) + "\n"


def path(name: str) -> Path:
    """Return the file of a page."""
    if name == "task_call":
        return PROJECT / "zsched" / "tasks" / "task_call.pyi"
    return PROJECT / "docs" / "reference" / f"{name}.md"


if __name__ == "__main__":
    for each in PAGES:
        path(each).write_text(page(each))
