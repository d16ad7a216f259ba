"""
Loads ``zsched/lua``: resolves includes, reads each header, and calls scripts by name.

A script's header is its contract::

    -- KEYS   meta log wake          names of functions in keys.py; rq_ and names of functions in rqkeys.py
    -- ARGV   token limit            fixed arguments, in this order
    --        ...                    then any number of rows

Python gives arguments by keyword, and this module orders them. In Lua a key has its name and the suffix ``_key``, an
argument has its name, and ``ROWS`` is the index of the first row in ARGV. So neither side counts. ``by``, who asks, is
the same for all calls of a ``Scripts``; in a script without this argument it is ''. ``op`` is a new operation, unless
it is given; "-": the reply is not kept. Replies begin with a word: OK, or
a reason for refusal; ``checked`` raises those of the fence.

A piece of ``lua/lib`` has a header, too::

    -- USES   meta_key log_key by    names of the script, and of pieces that it does not include
    -- GIVES  append(kind, fields)  names for scripts and other pieces

It includes the pieces that it needs, below the header. Each piece appears once in a script, where it is needed first,
as ``local append; do … end``. So a name that a piece defines without ``local`` is one of GIVES: all of the script below
sees it. Other names of a piece are its own. As in every script, an undeclared name is an error: a test finds it.

``RQ_JOB``, ``RQ_SCHEDULER_LOCK`` and so on stand for the texts with which RQ's keys begin, such as ``'rq:job:'``; the
name of a queue, worker or job follows. ``{rq}`` is the prefix alone. ``rqkeys.py`` has the kinds of keys. ``{format}``
and ``{oldest_format}`` are the numbers of ``core/entry.py``. The line ``-- sizes`` stands for commands that ask for the
size of each key of zsched that the script has, by its type in ``keys.py``.

``stream`` calls scripts many times, and sends the next call before the reply to the last one. That is twice as fast as
one at a time (measured: 109,000 to 136,000 rows/s against 50,000 to 67,000). After a broken connection, unanswered
calls are sent again, so use it only for calls that are safe to repeat.
"""

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache, partial
from importlib import resources
from itertools import chain, islice
from typing import Any, NamedTuple
from uuid import uuid4

from redis.exceptions import NoScriptError

from zsched import errors
from zsched.core.clock import SystemClock
from zsched.core.entry import FORMAT, OLDEST_FORMAT, text
from zsched.errors import RedisRefused, RedisUnavailable, ZschedError
from zsched.storage.connection import RESENDS, REST_S, Channel, Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.meta import explained, garbled_among
from zsched.storage.rqkeys import RQ_PREFIX, RQ_PREFIX_VARIABLE, NamedKey

_INCLUDE = re.compile(r"^-- include (\S+)\n", re.MULTILINE)
_SECTION = re.compile(r"^-- (KEYS|ARGV|USES|GIVES) +(.*(?:\n-- {8}.*)*)", re.MULTILINE)
_HEADER = re.compile(r"(?:--(?! include ).*\n)+")
_NAME = re.compile(r"@?\w+")
_PARAMETERS = re.compile(r"\(.*?\)")
_COLUMN = len("-- KEYS   ")
_RQ_KEY = re.compile(r"\bRQ_([A-Z_]+)\b")
_OF_CLUSTER = "lib/whole.lua"  # there, the prefix of RQ's keys has a hash tag
_ROWS = "..."
_LOADS = 10  # attempts to load a script, if it is flushed again before it runs
_FLUSHED = f"the scripts of this Redis were flushed at each of {_LOADS} attempts", "call again"
_GROUPS = {  # words in headers for common groups of names
    "@lanes": ("due_high", "due_normal", "due_low"),
    "@schedules": ("meta", "log", "due_high", "due_normal", "due_low", "paused", "quarantine", "recurring"),
    "@trouble": ("failing", "blocked"),  # see lib/state.lua
    "@prefixes": ("schedule_prefix", "template_prefix", "run_suffix"),  # as in keys.py
    "@term": ("token", "expected_server"),  # of the leader; see lib/fence.lua
}
_SIZE = {"hash": "HLEN", "set": "SCARD", "zset": "ZCARD"}
# Of the keys that have an id at their end, in keys.py.
_PREFIXES = tuple(f"{name}_prefix" for name in "schedule template op waiting retried unique moved".split())


class Script(NamedTuple):
    """One verb: its complete Lua text, the SHA1 by which a server knows it, and its header's names in order."""

    name: str
    text: str
    sha: str
    keys: tuple[str, ...]
    argv: tuple[str, ...]


@cache
def load(name: str, rq_prefix: str = RQ_PREFIX) -> Script:
    """
    Return the script ``zsched/lua/<name>.lua`` with its includes, and with RQ's keys under *rq_prefix*.

    Raises:
        ZschedError: an include is circular.
    """
    verb = source(f"{name}.lua")
    keys, argv = names_in(verb, "KEYS"), names_in(verb, "ARGV")
    has_rows = argv[-1:] == (_ROWS,)
    argv = argv[:-1] if has_rows else argv
    header = _HEADER.match(verb)
    assert header is not None, f"{name}.lua has no header"
    code = _bindings(keys, argv, has_rows) + verb[header.end() :]
    left_out = set() if "{" in rq_prefix else {_OF_CLUSTER}
    text = header[0] + _INCLUDE.sub(partial(_included, within=(f"{name}.lua",), seen=left_out), code)
    text = _RQ_KEY.sub(lambda found: f"'{{rq}}:{found[1].lower().replace('_', '-')}:'", text)
    text = text.replace("  -- sizes\n", _sizes(keys))
    for word, value in {"rq": rq_prefix, "format": FORMAT, "oldest_format": OLDEST_FORMAT}.items():
        text = text.replace(f"{{{word}}}", str(value))
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), keys, argv)


def _sizes(keys: Sequence[str]) -> str:
    """Return the commands that ask for the sizes of the *keys*. Other commands of a script read meta, log and lease."""
    types = {key: named.type for key in keys if isinstance(named := vars(Keys).get(key), NamedKey) and key != "meta"}
    return "".join(f"  redis.call('{_SIZE[type]}', {key}_key)\n" for key, type in types.items() if type in _SIZE)


class Scripts:
    """The scripts of one namespace over one channel. *by*: who asks, for the log; "": a daemon."""

    def __init__(self, channel: Channel, keys: Keys, by: str = "") -> None:
        self._channel, self._keys = channel, keys
        self._key_texts: dict[str, str] = {}  # keys of the namespace, which no call changes
        self._own_arguments = {"by": by, "run_suffix": keys.run_suffix} | {
            name: getattr(keys, name)() for name in _PREFIXES
        }

    def call(
        self, name: str, execute: Callable[..., Any] | None = None, /, *, rows: Iterable[Any] = (), **arguments: Any
    ) -> list[Any]:
        """
        Run script *name* and return its reply without the leading OK, or with its word. *execute*: returns the reply to
        the command, instead of the channel. If the server does not know the script, it is loaded, and the command is
        sent again: other clients may flush the scripts at any time.

        Raises:
            Stale: the lease is not this term's.
            ServerChanged: the term was won on another Redis server.
            NewerFormat, OlderFormat: another zsched stores the namespace in a format that this one does not know.
            OtherPrefix: the namespace has another prefix of RQ's keys.
            Garbled: a field of meta is not a number, or a key of zsched has a wrong type; nothing was done.
            RedisUnavailable, RedisRefused: as ``Link.execute``; or the scripts were flushed at every attempt.
        """
        command, execute = self.command(name, rows, arguments), execute or self._channel.execute
        for _ in range(_LOADS):
            try:
                reply = execute(*command)
            except NoScriptError:
                self.ensure(name)
            except RedisRefused as error:
                raise explained(self._channel, self._keys, error) from error.__cause__
            else:
                return checked(reply, self._keys)
        raise RedisUnavailable(*_FLUSHED)

    def command(self, name: str, rows: Iterable[Any], arguments: dict[str, Any]) -> list[Any]:
        """Return the EVALSHA command with keys and arguments in the header's order."""
        script, known, own = load(name, self._keys.rq.prefix), self._key_texts, self._own_arguments
        keys = [known.get(key) or self._key(key, arguments) for key in script.keys]
        argv = [own[argument] if argument in own else arguments[argument] for argument in script.argv]
        argv = [str(each) if each.__class__ is int else each for each in argv]  # texts need no look at each row in pack
        return ["EVALSHA", script.sha, str(len(keys)), *keys, *argv, *rows]

    def ensure(self, name: str) -> None:
        """Load script *name* if the server does not know it. Needed before a pipeline of EVALSHA."""
        self._channel.execute("SCRIPT", "LOAD", load(name, self._keys.rq.prefix).text)

    def _key(self, name: str, arguments: dict[str, Any]) -> str:
        if (head := self._own_arguments.get(f"{name}_prefix")) is not None:
            return f"{head}{arguments['id'] if name != 'op' else arguments.get('op') or uuid4().hex}"
        return self._key_texts.setdefault(name, self._keys.named(name)())


def checked(reply: list[Any], keys: Keys) -> list[Any]:
    """Return *reply* with its first word decoded, without OK. Raise the words of the fence and of lib/meta.lua."""
    word = reply[0].decode() if isinstance(reply[0], bytes) else str(reply[0])
    if word == "STALE":
        raise errors.Stale("the lease is held by another daemon, or lapsed")
    if word == "SERVER":
        raise errors.ServerChanged("this Redis is not the one on which the term began")
    if word == "FORMAT":
        raise unknown_format(keys, int(reply[1]))
    if word == "PREFIX":
        raise other_prefix(keys, text(reply[1]))
    if word == "GARBLED":
        raise garbled_among(keys, reply[1])
    return reply[1:] if word == "OK" else [word, *reply[1:]]


def unknown_format(keys: Keys, theirs: int) -> errors.OtherFormat:
    """Return the error for a namespace with the format *theirs* of another zsched."""
    if theirs > FORMAT:
        return errors.NewerFormat(
            f"a newer zsched keeps this namespace in format {theirs}, and this one knows {FORMAT}: upgrade zsched here"
        )
    return errors.OlderFormat(
        f"an older zsched kept this namespace in format {theirs}, and this one knows {FORMAT}: give another namespace, "
        f"or remove the keys {keys.prefix}* and schedule again"
    )


def other_prefix(keys: Keys, theirs: str) -> errors.OtherPrefix:
    """Return the error for a namespace whose runs are under the prefix *theirs* of RQ's keys."""
    return errors.OtherPrefix(
        f"namespace {keys.namespace!r} keeps its runs under RQ's prefix {theirs!r}, and here that is {keys.rq.prefix!r}"
        f": set [rq] prefix or {RQ_PREFIX_VARIABLE} to {theirs!r}, or give another namespace"
    )


def source(path: str) -> str:
    """Return the text of a file of ``zsched/lua``."""
    return (resources.files("zsched") / "lua" / path).read_text(encoding="utf-8")


def _bindings(keys: Sequence[str], argv: Sequence[str], has_rows: bool) -> str:
    """Return the lines that give a script's keys and arguments their names."""
    lines = [f"local {', '.join(f'{key}_key' for key in keys)} = unpack(KEYS)"]
    if argv:
        lines.append(f"local {', '.join(argv)} = unpack(ARGV, 1, {len(argv)})")
    if "by" not in argv:
        lines.append("local by = ''")  # an entry of a daemon; lib/meta.lua
    if has_rows:
        lines.append(f"local ROWS = {len(argv) + 1}")
    return "".join(f"{line}\n" for line in lines)


def piece(path: str) -> str:
    """Return the block of a piece of ``lua/lib`` in a script, with its header, without the pieces that it includes."""
    text = source(path)
    header, names, body = _HEADER.match(text), names_in(text, "GIVES"), _INCLUDE.sub("", text)
    at = header.end() if header else 0
    declared = f"local {', '.join(names)}; " if names else ""
    return f"{body[:at]}{declared}do\n{body[at:]}end\n"


def names_in(text: str, section: str) -> tuple[str, ...]:
    """
    Return the names in a *section* of the header of *text*, with groups expanded; the last is "..." if rows follow.

    A line begins with one or more names, a function's with its parameters. Two spaces separate them from the
    explanation. A line that is indented further is part of an explanation.
    """
    names: list[str] = []
    first, *more = dict(_SECTION.findall(text)).get(section, "").splitlines() or [""]
    for line in (first, *(line[_COLUMN:] for line in more)):
        listed = re.split(r"\s{2,}", line, maxsplit=1)[0]
        if listed.startswith(_ROWS):
            return (*names, _ROWS)
        words = _PARAMETERS.sub("", listed).split()
        if all(_NAME.fullmatch(word) for word in words):
            names += (name for word in words for name in _GROUPS.get(word, (word,)))
    return tuple(names)


def _included(found: re.Match[str], within: tuple[str, ...], seen: set[str]) -> str:
    """Return the piece that is *found* in the file ``within[-1]``, below its includes; '' if it is in *seen*."""
    if (path := found[1]) in within:
        raise ZschedError(f"{' includes '.join((*within, path))}: a circle")
    if path in seen:
        return ""
    seen.add(path)
    includes = (_included(each, (*within, path), seen) for each in _INCLUDE.finditer(source(path)))
    return "".join(includes) + piece(path)


_IN_FLIGHT = 2  # calls sent and not answered; more would only delay other clients of this Redis

BulkCall = tuple[str, list[Any], dict[str, Any]]  # name of the script, rows, arguments


def stream(
    link: Link, keys: Keys, names: Sequence[str], calls: Iterable[BulkCall], by: str = ""
) -> Iterator[list[Any]]:
    """
    Yield the replies to each call of scripts *names*, in order, asked for by *by*. Calls are sent only when replies are
    consumed, except the calls in flight.

    Raises:
        RedisUnavailable: the connection broke more often than calls are sent again; calls in flight may
            have been applied.
    """
    flight: deque[BulkCall] = deque()
    losses, clock = 0, SystemClock()
    replied_ms = clock.monotonic_ms()
    with ExitStack() as stack:
        first = [*islice(source := iter(calls), 1)]  # before a connection is held: making it may need one
        source, exhausted = chain(first, source), not first
        wire, scripts = _connect(link, keys, names, by, stack)
        while flight or not exhausted:
            call = next(source, None) if not exhausted and len(flight) < _IN_FLIGHT else None  # errors are its own
            exhausted = exhausted or (call is None and len(flight) < _IN_FLIGHT)
            try:
                if call is not None:
                    flight.append(call)
                    wire.send(*scripts.command(*call))
                if not flight or (len(flight) < _IN_FLIGHT and not exhausted):
                    continue
                reply = checked(wire.receive(), keys)
            except (RedisUnavailable, NoScriptError) as error:
                is_moving = isinstance(error, errors.SlotMoves)
                losses += not is_moving
                if losses > RESENDS or (is_moving and clock.monotonic_ms() - replied_ms > link.timeout_s * 1000):
                    if isinstance(error, NoScriptError):
                        raise RedisUnavailable(*_FLUSHED, may_have_been_applied=True) from error
                    raise error.but(may_have_been_applied=True) from error
                wire.close()
                stack.close()
                if is_moving:
                    link.pause(REST_S)
                wire, scripts = _connect_again(link, keys, names, by, stack)
                for call in flight:
                    wire.send(*scripts.command(*call))
            except RedisRefused as error:
                raise explained(link, keys, error) from error.__cause__
            else:
                flight.popleft()
                losses, replied_ms = 0, clock.monotonic_ms()
                yield reply


def _connect_again(link: Link, keys: Keys, names: Sequence[str], by: str, stack: ExitStack) -> tuple[Wire, Scripts]:
    """Connect after a loss, as often as calls are sent again: a node may lose the slot while it is connected to."""
    failures = 0
    while True:
        try:
            return _connect(link, keys, names, by, stack)
        except RedisUnavailable as error:
            failures += 1
            if failures > RESENDS:
                raise error.but(may_have_been_applied=True) from error


def _connect(link: Link, keys: Keys, names: Sequence[str], by: str, stack: ExitStack) -> tuple[Wire, Scripts]:
    wire = stack.enter_context(link.wire())
    scripts = Scripts(wire, keys, by)
    for name in names:
        scripts.ensure(name)  # in a pipeline it would be too late to load them
    return wire, scripts
