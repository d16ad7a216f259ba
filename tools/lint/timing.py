"""
A lint rule: no test depends on the speed of the machine.

``python -m tools.lint.timing [FILE …]`` prints each place of a kind that fails on a busy machine, with its remedy, and
ends with 1 if there are any. It finds what is written in the usual way, and follows numbers to constants of the tests.

A line that has to be so says why in a comment: ``# timing: the expiry is the subject``. A comment without a finding is
a finding, too.
"""

import ast
import io
import operator
import re
import sys
import tokenize
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.documents import PROJECT
from tests.sources import Source, source

LEAST_S: Final = 30.0  # of a deadline
LEAST_LEASE_MS: Final = 5_000
LEAST_DUE_S: Final = 60  # from now: what is due then does not fire during a test

REMEDIES: Final = {
    "sleep": "wait for an event, a barrier or `eventually`; a task that must last waits for a signal",
    "deadline": "WITHIN_S; where the product's own timeout is the subject: a virtual clock, or the outcome alone",
    "duration": "count looks, commands or round trips, or wait for an event; figures of speed belong in bench/",
    "lease": "STEADY; the test causes a take-over with faults/leases.py::lapse",
    "due soon": "put it far and use faults/overdue.py::become_due; or put it into the past, with allow_past",
    "port": "a unix socket, EmbeddedRedis(tcp=True), or a server that listens on port 0 and says which",
    "comment": "nothing here needs this comment: remove it",
}
# Clocks of these tests stand still, or are turned by hand.
WITHOUT_DAEMONS: Final = ("tests/unit/", "tests/lua/", "tests/model/", "tests/typed/")

_COMMENT: Final = re.compile(r"#\s*timing:\s*\S")
_SLEEP: Final = re.compile(r"((time|asyncio|anyio)\.)?sleep")
_CLOCK: Final = re.compile(r"(time\.)?(time|monotonic|perf_counter|process_time)(_ns)?|(SystemClock\(\)|clock)\.\w+_ms")
_NOWS: Final = {"now", "now_ms"}
_TIMEOUT: Final = re.compile(r"(within|deadline)_s|(\w+_)?timeout(_s|_seconds)?")
# With these, a timeout is an option of a job.
_OF_A_JOB: Final = re.compile(r".*\b(schedule|enqueue\w*|task|Callback|Run|definition_of|jobs|cron|call)")
_WAITS: Final = {
    "wait": 0,
    "join": 0,
    "settimeout": 0,
    "timeout": 0,
    "fail_after": 0,
    "move_on_after": 0,
    "wait_for": 1,
}
_LEASE: Final = re.compile(r"(\w+_)?lease_ms", re.IGNORECASE)
_DAEMON: Final = re.compile(r"\w*(daemon|leader)\w*", re.IGNORECASE)

_OPERATORS: Final = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}

Numbers = dict[str, float]


class Finding(NamedTuple):
    """A place that depends on the speed of the machine: its first and last line, a kind of ``REMEDIES``, its code."""

    line: int
    last_line: int
    kind: str
    code: str


def findings(source: Source, has_daemons: bool = True) -> list[Finding]:
    """
    Return the findings of a file, without those whose comment gives a reason. Due times count where a function of a
    file that *has_daemons* names one.
    """
    numbers, found = _numbers(source), set[Finding]()
    for node in source.nodes:
        found |= {_finding(node, kind) for kind in _kinds(node, numbers)}
    functions = [each for each in source.nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    if re.search(r"monotonic|perf_counter|process_time|time\.time|lock\S*_ms\(\)", source.text):
        measuring = {each.name for each in functions if _measures(each)}
        found |= {_finding(node, "duration") for each in functions for node in _durations(each, measuring)}
    for function in functions if has_daemons else []:
        soon = _due_soon(function, numbers)
        if soon and any(map(_DAEMON.fullmatch, _names(function))):
            found |= {_finding(node, "due soon") for node in soon}
    reasons = set[int]()
    if "timing:" in source.text:
        tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
        reasons = {each.start[0] for each in tokens if each.type == tokenize.COMMENT and _COMMENT.match(each.string)}
    excused = {each: reasons & set(range(each.line, each.last_line + 1)) for each in found}
    needless = reasons.difference(*excused.values())
    return sorted([each for each in found if not excused[each]] + [Finding(n, n, "comment", "") for n in needless])


def _finding(node: ast.AST, kind: str) -> Finding:
    assert isinstance(node, ast.expr | ast.keyword | ast.stmt)
    return Finding(node.lineno, node.end_lineno or node.lineno, kind, ast.unparse(node)[:100])


def _kinds(node: ast.AST, numbers: Numbers) -> Iterator[str]:
    """Yield the kinds of findings that a node is by itself."""
    match node:
        case ast.Call(func=func, args=args, keywords=keywords):
            name = _dotted(func)
            place = _WAITS.get(name.removeprefix("asyncio.") if name.endswith("wait_for") else name.rpartition(".")[2])
            given = [each.value for each in keywords if _TIMEOUT.fullmatch(each.arg or "")]
            if _SLEEP.fullmatch(name):
                yield "sleep"
            elif not _OF_A_JOB.fullmatch(name):
                given += args[place:][:1] if place is not None else []
                if any(_is_short(each, LEAST_S, numbers) for each in given):
                    yield "deadline"
            match args:
                case [key, value] if name.endswith("setenv") and _is_lease(key):
                    if _is_short(value, LEAST_LEASE_MS, numbers):
                        yield "lease"
                case [ast.Tuple(elts=[_, port]), *_] if name.endswith(("bind", "create_server")):
                    if _number(port, numbers):
                        yield "port"
        case ast.keyword(arg=str() as name, value=value):
            if _LEASE.fullmatch(name) and _is_short(value, LEAST_LEASE_MS, numbers):
                yield "lease"
        case ast.Dict(keys=keys, values=values):
            leases = [value for key, value in zip(keys, values, strict=True) if _is_lease(key)]
            if any(_is_short(each, LEAST_LEASE_MS, numbers) for each in leases):
                yield "lease"
        case ast.With(body=[*_, ast.Assign() | ast.Return() as last]) if "getsockname" in _names(last):
            yield "port"  # a listener that only lends its port: anybody may have it afterwards


def _dotted(node: ast.expr) -> str:
    """Return the name of a function: ``clock.now_ms``, ``SystemClock().now_ms``; "" for an expression without one."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted(value)}.{name}"
        case ast.Call(func=func):
            return f"{_dotted(func)}()"
    return ""


def _is_lease(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and isinstance(key.value, str) and bool(_LEASE.fullmatch(key.value))


def _is_short(node: ast.expr, least: float, numbers: Numbers) -> bool:
    """Return True for a number above 0 and below *least*. 0 means one look, without waiting."""
    number = _number(node, numbers)
    return number is not None and 0 < number < least


def _number(node: ast.expr, numbers: Numbers) -> float | None:
    """Return the value of a number, of a text of digits, of a constant, or of a sum of such; None for all else."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Constant(value=str() as text):
            return float(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else None
        case ast.Name(id=name):
            return numbers.get(name)
        case ast.Call(func=ast.Name(id="str" | "int" | "float"), args=[value]):
            return _number(value, numbers)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            one, other = _number(left, numbers), _number(right, numbers)
            return None if one is None or not other else float(_OPERATORS[type(op)](one, other))
    return None


def _numbers(source: Source) -> Numbers:
    """Return the constants of a module that are numbers, also those from other modules of the tests."""
    found: Numbers = {}
    for node in source.tree.body:
        match node:
            case ast.ImportFrom(module=str() as module, names=names) if module.startswith("tests."):
                theirs = _numbers_of(PROJECT / (module.replace(".", "/") + ".py"))
                found |= {each.asname or each.name: theirs[each.name] for each in names if each.name in theirs}
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                if (number := _number(value, found)) is not None:
                    found[name] = number
    return found


@cache
def _numbers_of(file: Path) -> Numbers:
    return _numbers(source(file)) if file.exists() else {}


def _durations(function: ast.AST, measuring: Collection[str] = ()) -> list[ast.expr]:
    """Return the comparisons by size with a difference of a real clock's readings, or with what *measuring* returns."""
    readings = _assigned(function, lambda value: _reads(value, ()))
    spans = {*measuring, *_assigned(function, lambda value: _is_span(value, readings, measuring))}
    return [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Compare)
        and any(isinstance(each, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for each in node.ops)
        and any(_is_span(side, readings, spans) for side in (node.left, *node.comparators))
        and any(not isinstance(side, ast.Constant) or side.value for side in node.comparators)  # > 0: is time left?
    ]


def _measures(function: ast.AST) -> bool:
    """Return True for a function that returns a difference of a real clock's readings."""
    readings = _assigned(function, lambda value: _reads(value, ()))
    returned = [each.value for each in ast.walk(function) if isinstance(each, ast.Return) and each.value]
    return any(_is_span(value, readings, ()) for value in returned)


def _assigned(function: ast.AST, is_such: Callable[[ast.expr], bool]) -> set[str]:
    """Return the names in a function to which it assigns *is_such*."""
    assigned = [each for each in ast.walk(function) if isinstance(each, ast.Assign) and is_such(each.value)]
    return {name for each in assigned for target in each.targets for name in _names(target)}


def _reads(node: ast.AST, readings: Collection[str]) -> bool:
    calls = (_dotted(each.func) for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(map(_CLOCK.fullmatch, calls)) or not _names(node).isdisjoint(readings)


def _is_span(node: ast.AST, readings: Collection[str], spans: Collection[str]) -> bool:
    differences = (each for each in ast.walk(node) if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub))
    return any(_reads(each, readings) for each in differences) or not _names(node).isdisjoint(spans)


def _due_soon(function: ast.AST, numbers: Numbers) -> list[ast.expr]:
    """Return the due times of a function that come during the test."""
    nodes, found = list(ast.walk(function)), list[ast.expr]()
    sums = [each for each in nodes if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add)]
    sums = [each for each in sums if _is_short(each.right, 1_000 * LEAST_DUE_S, numbers)]
    if sums:
        nows = _assigned(function, lambda value: not _NOWS.isdisjoint(_names(value)))
        found += [each for each in sums if not _names(each.left).isdisjoint(_NOWS | nows)]
    options = [each for each in nodes if isinstance(each, ast.keyword) and each.arg == "after"]
    return found + [each.value for each in options if _is_short(each.value, LEAST_DUE_S, numbers)]


def _names(node: ast.AST) -> set[str]:
    """Return the names, attributes and arguments in a node."""
    found = set()
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                found.add(name)
    return found


def main(names: Sequence[str]) -> int:
    """Print the findings of the files, by default of all tests."""
    files = [Path(name).resolve() for name in names] or sorted((PROJECT / "tests").rglob("*.py"))
    count = 0
    for file in files:
        name = file.relative_to(PROJECT).as_posix()
        for each in findings(source(file), has_daemons=not name.startswith(WITHOUT_DAEMONS)):
            sys.stdout.write(f"{name}:{each.line}: {each.kind}: {each.code}\n    {REMEDIES[each.kind]}\n")
            count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
