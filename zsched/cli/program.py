"""
The frame around every command: exit codes, shared options, the Invocation, and the handling of errors.

``-u -n -c --json`` may stand before and after the command's name. A command returns an exit code, or None for DONE. It
raises ZschedError or click's own errors; these become one line on stderr here.

The program is loaded before the command is known. So this module imports the client, the settings and each command
where they are used: ``zsched --version`` needs none of them.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any, Final

import click
from click.exceptions import Exit

from zsched.cli.output import Shown, Terminal, echo_array, say, say_lines
from zsched.errors import ConfigError, InvalidSchedule, NotFound, RedisUnavailable, ZschedError

if TYPE_CHECKING:
    from zsched.client import Client
    from zsched.config.settings import Settings
    from zsched.core.story.source import Source
    from zsched.storage.connection import Link

# Exit codes, each with its one meaning; scripts and the documentation rely on them.
DONE: Final = 0
FAILED: Final = 1  # it was tried and failed: Redis is away or refuses, or the run fired already
USAGE: Final = 2  # invalid arguments, options or settings
NOT_FOUND: Final = 3  # no schedule, or no run, has that id
UNHEALTHY: Final = 4  # `status`: there is an alarm; `doctor`: it found a problem; both: Redis cannot be reached
INTERRUPTED: Final = 130  # Ctrl-C, as shells count it
PIPE_CLOSED: Final = 141  # the reader of the output has gone, as shells count it


@dataclass
class Invocation:
    """
    One call of zsched. ``given`` holds the shared options by name, from before and after the command; the later one
    wins. Nothing is read or connected before a command needs it.
    """

    given: dict[str, Any] = field(default_factory=dict)
    is_silent: bool = False  # of an empty namespace: it was told, or Redis is away

    @property
    def wants_json(self) -> bool:
        """True if results are to be JSON."""
        return bool(self.given.get("json"))

    @property
    def config_file(self) -> str | None:
        """Return the path of the configuration file, or None."""
        from zsched.config.settings import FILE_VARIABLE

        return os.path.expanduser(self.given.get("config") or os.environ.get(FILE_VARIABLE) or "") or None

    @property
    def environment(self) -> dict[str, str]:
        """Return the shared options about settings as variables, for a process with the same settings."""
        from zsched.config.settings import FILE_VARIABLE, variable_of

        file, given = self.given.get("config"), self.given
        values = {
            FILE_VARIABLE: None if file is None else os.path.abspath(os.path.expanduser(file)),
            variable_of(("redis", "url")): given.get("redis_url"),
            variable_of(("", "namespace")): given.get("namespace"),
        }
        return {name: value for name, value in values.items() if value is not None}

    def settings(self) -> Settings:
        """Merge defaults < file < environment < options. Raises ConfigError."""
        from zsched.config.settings import load_settings

        flags = {"redis.url": self.given.get("redis_url"), "namespace": self.given.get("namespace")}
        return load_settings(self.given.get("config"), flags=flags)

    def client(self) -> Client:
        """Return a client by the settings, over a ``link``. Raises ConfigError."""
        settings = self.settings()
        return connect(settings, self.link(settings))

    def link(self, settings: Settings) -> Link:
        """Return a link by *settings*. At the end of the command, stderr says if the namespace is empty there."""
        from zsched.storage.connection import link_of

        link = link_of(settings)
        click.get_current_context().call_on_close(lambda: self.tell_if_empty(link, settings))
        return link

    def tell_if_empty(self, link: Link, settings: Settings) -> None:
        """Say on stderr if the namespace has no key, once; nothing if Redis does not answer: the command says so."""
        from zsched.storage.keys import keys_of
        from zsched.storage.rivals import emptiness

        error = sys.exc_info()[1]
        if self.wants_json or self.is_silent or not isinstance(error, NotFound | None):
            return
        self.is_silent = True
        with contextlib.suppress(ZschedError):
            if said := emptiness(link, keys_of(settings)):
                options = {name for each in click.get_current_context().command.params for name in each.opts}
                meant = options & {"--limit", "--number"} if settings.namespace.isdecimal() else ()
                say(said + "".join(f". Did you mean {option} {settings.namespace}?" for option in meant))

    @cached_property
    def terminal(self) -> Terminal:
        """The terminal behind stdout."""
        return Terminal.of(sys.stdout, os.environ)

    def answer(self, value: Any, *lines: Shown, tz: str | None = None) -> None:
        """
        Write a result: *value* as JSON, else *lines*, whose times are of the zone *tz*. An iterator becomes one JSON
        array, written as its values come.
        """
        if not self.wants_json:
            self.show(lines, tz)
        elif isinstance(value, Iterator):
            echo_array(value)
        else:
            click.echo(json.dumps(value))

    def result(self, name: str, word: str, **more: Any) -> int:
        """Answer what became of *name* in a word, and return the exit code; *more* keys are for JSON."""
        self.answer({"name": name, "result": word, **more}, f"{name}: {word}")
        return NOT_FOUND if word == "not_found" else DONE

    def show(self, lines: Iterable[Shown], tz: str | None = None) -> None:
        """
        Write *lines* as the terminal shows them, as they come; their times are of the zone *tz*. JSON stays whole.
        """
        terminal = Terminal() if self.wants_json else self.terminal
        for line in terminal.shown(lines, tz):
            click.echo(line)

    def remark(self, *texts: str) -> None:
        """Write *texts* to stderr; with JSON, nothing, because the result contains them."""
        for text in () if self.wants_json else texts:
            say(text)

    def tell_source(self, source: Source) -> None:
        """Write the source of the answer to stderr, unless it is complete, or the result is JSON and contains it."""
        if not (self.wants_json or source.is_complete):
            say_lines(str(source))

    def tell_error(self, message: str, error: Exception, **more: Any) -> None:
        """Report *error* on stderr, with the remedy that *message* lacks; *more* keys are for JSON."""
        remedy = error.remedy if isinstance(error, RedisUnavailable) and error.remedy not in message else ""
        if self.wants_json:
            more |= {"remedy": remedy} if remedy else {}
            click.echo(json.dumps({"error": message, "type": type(error).__name__, **more}), err=True)
        else:
            say_lines(*f"zsched: {message}".split("\n"), *([f"  → {remedy}"] if remedy else []))


def connect(settings: Settings, link: Link | None = None) -> Client:
    """Return a client by the settings, over *link* if given; no connection is made yet. Raises ConfigError."""
    from zsched.client import Client
    from zsched.storage.connection import link_of

    return Client(link or link_of(settings), settings.namespace, by=settings.by, **settings.client_options)


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)


def command(name: str | None = None, of: Any = click, cls: Any = None) -> Callable[[Callable[..., Any]], click.Command]:
    """
    Make a command of a function that takes the Invocation first, one of the group *of* if given. The default name is
    the function's.
    """
    return lambda function: of.command(name, cls=cls or Subcommand)(pass_invocation(function))


# -- the program ------------------------------------------------------------------------------------


RARE: Final = "Rare"  # the heading of commands that only --help-all shows
_HELP = {"help_option_names": ["-h", "--help"]}
_URL_HELP = "Redis: redis://host:6379/0, rediss://…, unix:///path?db=0 or redis+sentinel://host,host2/master/0."
_SHARED = (
    (("-u", "--redis-url"), {"metavar": "URL", "help": _URL_HELP}),
    (("-n", "--namespace"), {"metavar": "NS", "help": "The namespace: several schedulers may share a Redis."}),
    (("-c", "--config"), {"metavar": "FILE", "help": "A TOML file of settings; see zsched files zsched.toml."}),
    (("--json",), {"is_flag": True, "help": "Print JSON; also errors, on stderr."}),
)


class Subcommand(click.Command):
    """A command that also accepts the shared options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.context_settings = {**_HELP, **self.context_settings}
        self.params += _shared_options()


class LazyCommand(click.Command):
    """
    A command that is imported when it is called. *place*: its module and function; *summary*: its line in lists of
    commands; *group*: the heading above it.
    """

    def __init__(self, name: str, place: str, summary: str, group: str = "") -> None:
        super().__init__(name, short_help=summary)
        self._place, self.group = place, group

    def load(self) -> click.Command:
        """Import the command itself."""
        module, _, function = self._place.rpartition(".")
        found: click.Command = getattr(importlib.import_module(module), function)
        return found

    def make_context(self, *given: Any, **extra: Any) -> click.Context:
        """Return a context of the command itself, in which click calls it, shows its help or completes it."""
        return self.load().make_context(*given, **extra)


class Program(click.Group):
    """The root command of zsched. Its ``main`` turns exceptions into exit codes."""

    command_class = Subcommand

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of their addition, which is the order of use."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their groups, with their whole summaries; the rare ones only if they are asked for."""
        commands = [each for each in self.commands.values() if isinstance(each, LazyCommand)]
        commands = [each for each in commands if each.group != RARE or RARE in ctx.meta]
        for heading, group in groupby(commands, key=lambda each: each.group):
            with formatter.section(heading):
                formatter.write_dl([(str(each.name), each.short_help or "") for each in group], col_max=12)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. If the reader of the output has gone, end quietly before click reports a failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise close_stdout() from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run *args* (default: this process's) and return the exit code, or exit with it if *standalone_mode*."""
        _prepare_streams()
        arguments = sys.argv[1:] if args is None else list(args)
        as_json = "--json" in takewhile(lambda argument: argument != "--", arguments)
        code = _guarded(lambda: super(Program, self).main(arguments, prog_name, complete_var, False, **extra), as_json)
        if standalone_mode:
            sys.exit(code)
        return code


def _prepare_streams() -> None:
    """Let stdout write escapes for what its encoding lacks, as stderr does, and closed streams lead nowhere."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115  # until this process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _guarded(call: Callable[[], Any], as_json: bool) -> int:
    """Return the exit code of *call*; report its exception on stderr."""
    try:
        code = call()
        sys.stdout.flush()
    except BrokenPipeError:
        return close_stdout().exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        return _tell(_usage(error), error, USAGE, as_json)
    except ZschedError as error:
        message = error.problem if isinstance(error, RedisUnavailable) else str(error)
        is_usage = isinstance(error, InvalidSchedule | ConfigError)
        code = NOT_FOUND if isinstance(error, NotFound) else USAGE if is_usage else FAILED
        return _tell(message, error, code, as_json)
    except OSError as error:  # of a stream: the layers below convert their own
        close_stdout()
        problem = f"cannot write the output: {error.strerror}; make room, or write it elsewhere"
        return _tell(str(error) if error.filename else problem, error, FAILED, as_json)
    return code if isinstance(code, int) else DONE


def _usage(error: click.ClickException) -> str:
    """Return click's message, and how to get the command's help."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    message = error.format_message().rstrip(".")
    if context is None:
        return message
    if "extra argument" in message and any("--match" in param.opts for param in context.command.params):
        message += "; ids, and patterns of ids, are given by --match"
    return f"{message}{' See' if message.endswith('?') else '; see'} {context.command_path} --help"


def _tell(message: str, error: Exception, code: int, as_json: bool) -> int:
    with contextlib.suppress(OSError):
        Invocation({"json": as_json}).tell_error(message, error)
    return code


def close_stdout() -> Exit:
    """
    Return the exit for a closed pipe. The buffered rest is discarded, or the interpreter would complain at its end.
    """
    with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor has no pipe
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
    return Exit(PIPE_CLOSED)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    given = ctx.ensure_object(Invocation).given
    if value is not None and value is not False:
        given[str(param.name)] = value


def _shared_options() -> list[click.Parameter]:
    return [click.Option(names, expose_value=False, callback=_keep, **attributes) for names, attributes in _SHARED]


def group(name: str, cls: type[click.Group] = click.Group) -> Callable[[Callable[[], None]], click.Group]:
    """Make a group of commands of a function with its help, which is shown if no command is given."""
    options: dict[str, Any] = {"params": _shared_options(), "context_settings": _HELP, "invoke_without_command": True}
    return lambda function: cls(name, help=function.__doc__, callback=_help_unless_invoked, **options)


@click.pass_context
def _help_unless_invoked(ctx: click.Context) -> int:
    """Show a group's help if no subcommand was given; return the exit code."""
    if ctx.invoked_subcommand is not None:
        return DONE
    click.echo(ctx.get_help(), err=True)
    return USAGE


def _help_with_all(ctx: click.Context, param: click.Parameter, is_given: bool) -> None:
    if is_given:
        ctx.meta[RARE] = True
        click.echo(ctx.get_help())
        ctx.exit()


# The version by name: the package's root imports from the layers, and no layer imports from the root.
@click.version_option(importlib.import_module("zsched").__version__, message="%(prog)s %(version)s")
@click.option(
    "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_help_with_all,
    help="Show this message with the rare commands, and exit.",
)  # fmt: skip
@group("zsched", cls=Program)
def program() -> None:
    """
    Schedules that fire into RQ queues: exactly once, never early, nothing lost.

    Settings come from options, ZSCHED_* in the environment, and the file given with -c. The options below may also
    stand after the command. Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 unhealthy.

    \b
    Examples:
      zsched up --demo
      zsched add reminder-42 app.tasks.remind --at 2026-12-24T18:00 --tz Asia/Seoul --args '[42]'
      zsched ls --queue email --json
    """
