"""
The changes of a Python text: each comparison, and/or, not, sign, number, truth, min/max and condition is inverted. Each
statement that can be missed without a NameError is removed.

Not changed: annotations, decorators, texts, ``strict=`` of zip and ``total=`` of a TypedDict (they decide nothing),
attributes that a constructor sets (without them everything fails), and debug lines of the log.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from tools.mutants.change import Change, other_numbers

_TURNED: dict[type[ast.AST], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: (r"is\s+not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: (r"not\s+in", ("in",)),
    ast.And: ("and", ("or",)),
    ast.Or: ("or", ("and",)),
    ast.Add: (r"\+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: (r"\*", ("//",)),
    ast.FloorDiv: ("//", ("*",)),
    ast.Div: ("/", ("*",)),
    ast.Mod: ("%", ("*",)),
}
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_PLAIN = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.NamedExpr)


def changes(text: bytes) -> Iterator[Change]:
    """Yield the changes of *text*. After a few of them it does not compile: ``compiles`` takes longer than all else."""
    source = _Source(text)
    return (change for change in source.of(source.tree) if change.applied(text) != text)


def compiles(text: bytes) -> bool:
    """Return True if a mutated text compiles."""
    try:
        compile(text, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


class _Source:
    def __init__(self, text: bytes) -> None:
        self.text, self.tree = text, ast.parse(text)
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        named = (node for node in ast.walk(self.tree) if isinstance(node, ast.Assign | ast.AnnAssign))
        self._named = {node.value for node in named if _is_constant(node)}

    def of(self, node: ast.AST) -> Iterator[Change]:
        """Yield the changes of *node* and of all below it."""
        yield from self._of_this(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            if isinstance(node, ast.keyword) and node.arg in ("strict", "total"):
                continue
            children = [
                child for child in (value if isinstance(value, list) else [value]) if isinstance(child, ast.AST)
            ]
            for child in children:
                if name in ("body", "orelse", "finalbody") and isinstance(child, ast.stmt):
                    yield from self._without(child, node, is_last=child is children[-1])
                yield from self.of(child)

    def _of_this(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Compare():
                for (left, right), op in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
                    yield from self._turned(op, left, right)
            case ast.BoolOp():
                for left, right in pairwise(node.values):
                    yield from self._turned(node.op, left, right)
            case ast.BinOp() if not (_is_text(node.left) or _is_text(node.right)):
                yield from self._turned(node.op, node.left, node.right)
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                yield Change(self._start(node), self._start(node) + (3 if isinstance(node.op, ast.Not) else 1), b"")
            case ast.Constant(value=bool()):
                yield self._instead(node, str(not node.value))
            case ast.Constant(value=int() | float() as value):
                for other in other_numbers(value, node in self._named):
                    yield self._instead(node, other.decode())
            case ast.Call(func=ast.Name(id=name)) if name in _SWAPPED:
                yield self._instead(node.func, _SWAPPED[name])
            case ast.If() | ast.While() | ast.IfExp() if isinstance(node.test, _PLAIN):
                yield self._negated(node.test)
            case ast.comprehension():
                yield from (self._negated(test) for test in node.ifs if isinstance(test, _PLAIN))

    def _without(self, node: ast.stmt, parent: ast.AST, is_last: bool) -> Iterator[Change]:
        is_gone = False
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr="debug"))):
                pass
            case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
                is_gone = True
            case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
                is_gone = True
            case ast.Return():
                is_gone = not (isinstance(parent, ast.FunctionDef) and is_last)
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
                is_gone = not (isinstance(parent, ast.FunctionDef) and parent.name == "__init__")
        if is_gone:
            yield self._instead(node, "pass")

    def _turned(self, op: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[Change]:
        if type(op) not in _TURNED:
            return
        sign, others = _TURNED[type(op)]
        begin, end = self._end(left), self._start(right)
        found = re.search(sign.encode(), re.sub(rb"#[^\n]*", lambda note: b" " * len(note[0]), self.text[begin:end]))
        if found:
            yield from (Change(begin + found.start(), begin + found.end(), other.encode()) for other in others)

    def _negated(self, test: ast.expr) -> Change:
        start, end = self._start(test), self._end(test)
        return Change(start, end, b"(not (" + self.text[start:end] + b"))")

    def _instead(self, node: ast.expr | ast.stmt, new: str) -> Change:
        return Change(self._start(node), self._end(node), new.encode())

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset


def _is_constant(node: ast.Assign | ast.AnnAssign) -> bool:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return isinstance(target, ast.Name) and target.id.isupper()


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
