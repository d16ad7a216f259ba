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
openapi     the document of the HTTP API, as ``zsched web`` serves it
=========== ==============================================
"""

import ast
import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final, cast
from unittest.mock import patch

import click
import structlog

import zsched
from docs.python_page import python
from docs.task_call import task_call
from zsched import errors
from zsched.aio.link import AsyncLink
from zsched.cli import program
from zsched.cli.program import LazyCommand
from zsched.config.settings import Settings
from zsched.core.options.forms import Form, Group, ValueType
from zsched.core.options.table import FOR_ENQUEUE, FOR_UPDATE, ONLY_ENQUEUE, OPTIONS
from zsched.web.app import make_api

PROJECT: Final = Path(__file__).parents[1]
_KINDS: Final = ("counter", "gauge", "histogram")


_OPTION_NOTES: Final = """
## Notes

- `id`: 1 to 128 of `A-Z`, `a-z`, `0-9`, `_` and `-`, not beginning with `-`.
- A duration is seconds, a text such as `"2m"` or `"1h30m"`, or in Python a `timedelta`. The units are `w`, `d`, `h`,
  `m`, `s` and `ms`.
- `tz` is an IANA name. Abbreviations and offsets (`EST`, `UTC+9`) are refused: they have no summer time.
- `at`: a naive datetime with `fold=1` is the second pass of a repeated time.
- `every`: 1 ms to 100 years of elapsed time, whatever clocks do. It counts from `starts`, else from the put that made
  the rule. Another put with the same rule keeps that origin.
- `cron`: 0 and 7 are Sunday. Also names (`MON`, `JAN`), `L` (last day of the month), `L5` (last Friday), `5#2` (second
  Friday), `?` for `*` in the day fields, ranges that wrap (`22-4`), `@hourly`, `@daily`, `@midnight`, `@weekly`,
  `@monthly`, `@yearly` and `@annually`. If both day fields are restricted, either one is enough. `R`, `H`, `W` and
  years are refused: use `starts` and `ends`, or `at` for a single time.
- `rrule`: FREQ=DAILY or coarser. `UNTIL` is inclusive. A date is its whole day, and a time without `Z` is local, both
  in `tz`; the stored rule has it in UTC. INTERVAL counts from `starts`, else from the day of the put.
- `count` counts occurrences of the rule, not runs.
- `retry`: an interval is in seconds, from the end of an attempt. Without the option nothing is retried.
- `result_ttl=0` and `failure_ttl=0` remove a run from RQ within two seconds of its recorded end, a minute at most. So
  do all values below a minute.
- `priority` ends at the push: [keep urgent runs quick](../how-to/schedule.md#keep-urgent-runs-quick).
- `urgency`: [the presets](../explanation/policies.md#urgent). `Client(urgencies={"digest": {"jitter": 60}})` changes or
  adds some, and `[urgency.digest]` does so for the command line.
- `rate_limit` is `"sms:3"`, `("sms", 3)` or `rq.RateLimit("sms", 3)`, and needs
  [RQ 3](../explanation/policies.md#too-many-at-once).
- `tags`: at most 32, of at most 200 characters each. A call (function and arguments) has at most 256 KiB
  (`[limits] payload_bytes`).
- `durable` costs some milliseconds.
- [Policies](../explanation/policies.md) explains `overlap`, `catch_up`, `expires_after` and `jitter`.

## When clocks change

`gap` and `fold` change the first and the third row. A cron rule whose minute or hour begins with `*` ignores them.

| default of | 02:30 is skipped | 01:30 comes twice |
|---|---|---|
| `cron` with a fixed time | fires at 03:00 (`first_valid`) | fires at the first |
| `cron` with `*` first in minute or hour | fires at none | fires at both, as the clock shows |
| `at`, `rrule` | fires at 03:30 (`shift`) | fires at the first |
"""


def options() -> Iterator[str]:
    """Yield the lines of the page of options."""
    yield "# Options of a schedule\n"
    yield "Every option of `client.schedule`: the everyday ones first, the others in four groups.\n"
    everything = OPTIONS | ONLY_ENQUEUE
    yield f"- `client.update` takes all but {_names(everything.keys() - FOR_UPDATE)}."
    yield f"- `client.enqueue` takes {_names(FOR_ENQUEUE)}."
    yield "- The command line writes `--catch-up` for `catch_up`, and `--tag` for each of `tags`."
    yield "- *Elsewhere*: the name in other schedulers. Error messages suggest ours."
    for group in Group:
        yield f"\n## {group}\n"
        for name, option in everything.items():
            if option.group is group:
                meaning = option.help_with(lambda other: f"`{other}`")
                elsewhere = ", ".join(f"`{each}`" for each in option.elsewhere.split())
                yield f"- `{name}` {_value(option.form)}: {meaning}{f' Elsewhere: {elsewhere}.' if elsewhere else ''}"
    yield _OPTION_NOTES.rstrip("\n")


def _names(names: AbstractSet[str]) -> str:
    """Return the names of options in the order of their table."""
    return ", ".join(f"`{name}`" for name in OPTIONS | ONLY_ENQUEUE if name in names)


def _value(form: Form) -> str:
    if form.value_type is ValueType.WORD:
        return f"`{'|'.join(form.words)}`"
    return "`true|false`" if form.value_type is ValueType.BOOLEAN else f"`{form.metavar}`"


# Options of many commands, by the section of the page that has them once.
_FILTERS: Final = {
    "of schedules": {"state", "kind"},
    "of both": {"match", "queue", "func", "tag", "name", "owner"},
    "of runs": {"since", "until"},
    "of changes": {"dry_run", "limit", "per_second", "yes", "if_version"},
}
_PUTS: Final = ("zsched add", "zsched set")  # commands that take the options of a schedule
_WITH_EXAMPLES: Final = "Everyday"  # the group of commands that have examples on the page
_FILTERS_HEAD: Final = """## Filters

Commands that list or change many take these. A command that changes takes ids, or filters. The default of
`--per-second` is 200 where runs are pushed (resume, release, retry), else 5,000. Pause, resume, cancel and release have
`--if-version`.
"""


def commands() -> Iterator[str]:
    """Yield the lines of the page of commands."""
    yield "# Commands\n"
    yield "All commands, the everyday ones first. `zsched COMMAND --help` has examples of each.\n"
    shared = frozenset(each for param in program.params for each in param.opts)
    yield from _command(program, "zsched", frozenset(), has_examples=True)
    for name, command in program.commands.items():
        is_everyday = getattr(command, "group", "") == _WITH_EXAMPLES
        yield from _command(_loaded(command), f"zsched {name}", shared, has_examples=is_everyday)
    yield _FILTERS_HEAD
    for part, names in _FILTERS.items():
        yield f"{part.capitalize()}:\n"
        command = program.commands["retry" if part == "of runs" else "pause"]  # --until is another one there
        for row in _option_rows([each for each in _options(_loaded(command), shared) if each.name in names]):
            row = re.sub(r"Only (?:schedules|runs) (\w)", lambda found: found[1].upper(), row)
            yield row.replace("; default 5,000", "")


def _loaded(command: click.Command) -> click.Command:
    return command.load() if isinstance(command, LazyCommand) else command


def _options(command: click.Command, left_out: AbstractSet[str]) -> list[click.Option]:
    options = [each for each in command.params if isinstance(each, click.Option) and not left_out & {*each.opts}]
    return [each for each in options if not each.hidden]


def _command(
    command: click.Command, path: str, left_out: AbstractSet[str], *, has_examples: bool = False
) -> Iterator[str]:
    """Yield the section of a command, without the options *left_out*, and those of its own commands."""
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    named = [str(each.name).upper() + ("…" if each.nargs < 0 else "") for each in arguments]
    shown = [name if each.required else f"[{name}]" for name, each in zip(named, arguments, strict=True)]
    inner = command.commands if isinstance(command, click.Group) and path != "zsched" else {}
    children = {f"{path} {name}": _loaded(each) for name, each in inner.items()}
    yield f"## {' '.join([path, *shown])}\n"
    for block in inspect.cleandoc(command.help or "").split("\n\n"):
        text = block.replace("\f", "")
        kept = text.partition("\b\n")[2]
        if not kept:
            yield f"{text}\n"
        elif has_examples or children:
            yield f"```text\n{kept.partition(':')[2].strip(chr(10))}\n```\n"
    yield from _tables(path, _options(command, left_out))
    shared = _shared_by([*children.values()], left_out)
    if shared:
        yield "Several of its commands take these:\n"
        yield from _option_rows(shared)
    for name, child in children.items():
        yield from _command(child, name, left_out | {each.opts[-1] for each in shared})


def _shared_by(children: list[click.Command], left_out: AbstractSet[str]) -> list[click.Option]:
    """Return the options that more than two of the commands take."""
    all_ = [each for child in children for each in _options(child, left_out)]
    times = Counter(each.opts[-1] for each in all_)
    return [*{each.opts[-1]: each for each in all_ if times[each.opts[-1]] > 2}.values()]


def _tables(path: str, options: list[click.Option]) -> Iterator[str]:
    """Yield the options: those of a schedule by their names, filters as a link, and the others with their help."""
    names = {str(each.name) for each in options}
    of_schedule = [each for each in options if each.name in OPTIONS]
    if path == "zsched add":
        yield "It takes the [options of a schedule](options.md).\n"
    elif path == "zsched set":
        lacking = [name for name in OPTIONS if name not in names and name != "id"]
        flags = " and ".join(f"`--{name.replace('_', '-')}`" for name in lacking)
        yield f"It takes the options of `zsched add`, except {flags}, and:\n"
    elif "match" in names:
        parts = [part for part, own in _FILTERS.items() if own - {"if_version"} <= names]  # runs have no versions
        options = [each for each in options if not any(each.name in _FILTERS[part] for part in parts)]
        named = [part.removeprefix("of ") for part in parts if part != "of both"] or ["both"]
        yield f"It takes [filters](#filters) of {' and '.join(named)}.\n"
    yield from _option_rows([each for each in options if each not in of_schedule or path not in _PUTS])


def _option_rows(options: list[click.Option]) -> Iterator[str]:
    for option in options:
        names = ", ".join([*option.opts, *option.secondary_opts])
        choices = "|".join(option.type.choices) if isinstance(option.type, click.Choice) else ""
        value = option.metavar or choices
        yield f"- `{names}{f' {value}' if value else ''}`: {option.help}"
    if options:
        yield ""


_EVERYDAY_SETTINGS: Final = re.compile(r"# Everyday: (.*?)\.\n#\n", re.DOTALL)


def settings() -> Iterator[str]:
    """Yield the lines of the page of settings."""
    text = (PROJECT / "config" / "zsched.toml").read_text()
    found = _EVERYDAY_SETTINGS.search(text)
    everyday = [] if found is None else found[1].replace("\n# ", " ").split(", ")
    yield "# Settings\n"
    yield "Every key of `config/zsched.toml` with its default; a key without one has an example."
    yield "A value comes from an option, else from the environment, else from the file, else it is the default. The"
    yield "variable of `[redis] url` is `ZSCHED_REDIS_URL`, and that of `namespace` `ZSCHED_NAMESPACE`. The tables"
    yield "`[queues.<name>]` and `[urgency.<name>]` are read from a file only.\n"
    yield f"Everyday: {', '.join(f'[`{each}`](#{_anchor(each)})' for each in everyday)}.\n"
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
                    yield from _setting(examples, comments)
                    comments, examples = list[str](), list[str]()
                comments.append(line.removeprefix("#").strip())
        if examples:
            yield from _setting(examples, comments)


def _anchor(setting: str) -> str:
    """Return the anchor of the section of a setting, such as ``[redis] url``."""
    return re.sub(r"[^\w-]", "", setting.partition("]")[0])


def _setting(examples: list[str], comments: list[str]) -> Iterator[str]:
    values = [example.partition(" = ") for example in examples]
    yield f"### {', '.join(f'`{name}`' for name, _, _ in values)}\n"
    yield f"{', '.join(f'`{value}`' for _, _, value in values)}: {' '.join(comments)}\n"


def metrics() -> Iterator[str]:
    """Yield the lines of the page of metrics, by the calls in the collectors that make families."""
    yield "# Metrics\n"
    yield "The metrics that a daemon serves at `/metrics`.\n"
    yield from _families("serving.py")
    yield "\n## Of `zsched web`\n"
    yield "`zsched web` serves these at `/metrics` of its own address.\n"
    yield from _families("web_collector.py")


def _families(file: str) -> Iterator[str]:
    """Yield the list of the families of a collector."""
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
    """Yield the item of one call; nothing if it makes no family, or makes one of a name that is not known here."""
    kind = ast.unparse(call.func)
    if kind not in _KINDS or not isinstance(call.args[0], ast.Constant):
        return
    name = f"zsched_{call.args[0].value!s}{'_total' if kind == 'counter' else ''}"
    meaning = str(call.args[1].value) if isinstance(call.args[1], ast.Constant) else help_text
    labels = [each for part in [*call.args[3:], *(word.value for word in call.keywords)] for each in _texts(part)]
    by = f" by {', '.join(f'`{label}`' for label in labels)}" if labels else ""
    yield f"- `{name}` ({kind}{by}): {meaning}"


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.List):
        yield from (str(each.value) for each in node.elts if isinstance(each, ast.Constant))


_NOT_RAISED: Final = {"ZschedError", "Stale", "ServerChanged"}  # to callers: daemons alone see the last two


def error_classes() -> Iterator[str]:
    """Yield the lines of the page of errors."""
    yield "# Errors\n"
    yield "Every error of zsched is a `ZschedError`. With `--json` the command line prints its name as `type`."
    yield "In brackets: the error that it is, too.\n"
    for name, error in [*vars(errors).items(), ("RowsRefused", zsched.RowsRefused)]:  # beside its result
        if inspect.isclass(error) and issubclass(error, errors.ZschedError) and name not in _NOT_RAISED:
            text = " ".join(inspect.cleandoc(error.__doc__ or "").replace("``", "`").split())
            bases = "".join(f" (`{base.__name__}`)" for base in error.__bases__ if base is not errors.ZschedError)
            shown = f"zsched.{name}" if hasattr(zsched, name) else f"zsched.errors.{name}"
            yield f"- `{shown}`{bases}: {text}"


def openapi() -> Iterator[str]:
    """Yield the OpenAPI document. No connection is made."""
    with structlog.testing.capture_logs():  # there are no accounts
        app = make_api(Settings(), cast("AsyncLink", AsyncLink.from_url("redis://localhost", 1)))
    yield json.dumps(app.openapi(), indent=1, ensure_ascii=False)


PAGES: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "options": options, "commands": commands, "settings": settings, "metrics": metrics, "errors": error_classes,
    "python": python, "task_call": task_call, "openapi": openapi,
}  # fmt: skip


def page(name: str) -> str:
    """Return the text of a page, by its name in PAGES."""
    with patch.dict("os.environ", clear=True):  # defaults that are shown come from no variable
        lines = [*PAGES[name]()]
    made_by = [] if path(name).suffix != ".md" else ["", "<!-- Made by docs/pages.py: `make pages` writes it. -->"]
    return "\n".join([*lines, *made_by]) + "\n"


def path(name: str) -> Path:
    """Return the file of a page."""
    if name == "task_call":
        return PROJECT / "zsched" / "tasks" / "task_call.pyi"
    return PROJECT / "docs" / "reference" / (f"{name}.json" if name == "openapi" else f"{name}.md")


if __name__ == "__main__":
    for each in PAGES:
        path(each).write_text(page(each))
