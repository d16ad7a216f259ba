"""
Lint rules for words: docstrings, messages, names of tests, and unique names.

- A docstring begins with a verb or a noun, so that it is understood without the name above it.
- A test's name is a sentence with a subject and a behaviour: ``test_cancelling_an_unknown_id_returns_not_found``. A
  program cannot tell if a name has a verb. It can refuse beginnings without a subject, a pronoun before any noun, and
  names that are too short for a sentence.
- A message or docstring of ``zsched`` has none of the phrases in ``tests.prose.STILTED``, which has plainer words too.
- grep finds the one class, or the one function, that a text names. Classes and type aliases, private ones too, and
  public functions at the top of a module are counted over all of ``zsched``. Methods are not counted: their class
  distinguishes them. Nor are the functions behind commands, which have the names that people type.

``python -m tools.lint.wording`` prints each place, and ends with 1 if there are any.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tests.documents import PROJECT
from tests.prose import replaceable
from tests.sources import PACKAGE, Source, sources

LEAST_WORDS: Final = 4
_HALF_SENTENCE: Final = re.compile(r"(What|Whether|Where|Those|Which|As|Of|How|When|Why|Who|Whose|That)\b")
# Words that begin no subject. "one shot", and the options if_exists, on_lost and on_uncertain, are nouns.
_NO_SUBJECT: Final = re.compile(
    r"(?:after|as|at|before|behind|but|by|each|for|from|how|if(?!_exists)|in|it|no|nothing|of|off"
    r"|on(?!_lost|_uncertain)|one(?!_shot)|others|out|that|them|there|these|they|this|those|to|under|until"
    r"|what|whatever|when|where|whether|which|while|who|whoever|whose|with|without)_"
)
_EARLY_PRONOUN: Final = re.compile(r"[^_]+_(?:[^_]+_)?(?:it|them|they|there)(?:_|$)")  # second or third word
_RIDDLE: Final = re.compile(r"(?:^|_)(?:told|whoever|(?:one|ones|those)_(?:that|which|who))(?:_|$)")
_STILTED: Final = re.compile(
    r"(?<!there)_(?:is|are)_no_(?!longer|larger|more)|_go(?:es)?_on(?:_|$)|_put_back(?:_|$)|_as_it_is$"
)
_CLASS: Final = re.compile(r"_?[A-Z]+[a-z]\w*")


def half_sentences(source: Source) -> Iterator[str]:
    """Yield the first line of each docstring that begins with a word of half a sentence."""
    for node in source.nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            if _HALF_SENTENCE.match(docstring):
                yield docstring.partition("\n")[0]


def stilted(source: Source) -> Iterator[str]:
    """Yield each stilted phrase in a text of *source*, with its line and the plain words for it."""
    parts = {id(part) for node in source.nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in source.nodes:
        if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in parts:
            pieces = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = (one.value if isinstance(one, ast.Constant) else "…" for one in pieces)
            text = "".join(one for one in texts if isinstance(one, str))
            yield from (f"{node.lineno}: {found}" for found in replaceable(" ".join(text.split())))


def bad_names(source: Source) -> Iterator[str]:
    """Yield each bad name of a test in *source*, with the reason."""
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            fault = _fault_of(node.name.removeprefix("test_"))
            if fault:
                yield f"{node.name} {fault}"


def _fault_of(name: str) -> str | None:
    """Return the reason why *name*, without ``test_``, is no sentence; None if it may be one."""
    if _NO_SUBJECT.match(name):
        return "begins without a subject: name the thing, then what it does"
    if _EARLY_PRONOUN.match(name):
        return "has a pronoun before any noun: name the thing"
    if _RIDDLE.search(name):
        return "has a phrase without a noun: name the thing"
    if _STILTED.search(name):
        return "says what is not: is not a, continues, is restored or released, is unchanged"
    if len(name.split("_")) < LEAST_WORDS:
        return f"has less than {LEAST_WORDS} words: add the behaviour"
    return None


def homonyms(modules: dict[str, Source]) -> dict[str, list[str]]:
    """Return each name of a class or public function that more than one module defines, with these modules."""
    found: dict[str, list[str]] = {}
    for names_of in (_classes, _functions):
        found |= _defined_twice(names_of, modules)
    return found


def _defined_twice(names_of: Callable[[ast.stmt], Iterable[str]], modules: dict[str, Source]) -> dict[str, list[str]]:
    places: dict[str, set[str]] = defaultdict(set)
    for module, source in modules.items():
        for node in source.tree.body:
            for name in names_of(node):
                places[name].add(module)
    return {name: sorted(found) for name, found in places.items() if len(found) > 1}


def _classes(node: ast.stmt) -> Iterator[str]:
    """Yield the class or type alias that *node* defines."""
    if isinstance(node, ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (each.id for each in targets if isinstance(each, ast.Name) and _CLASS.fullmatch(each.id))


def _functions(node: ast.stmt) -> Iterator[str]:
    """Yield the public function that *node* defines, unless it is a command."""
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not _is_command(node):
        yield node.name


def _is_command(node: ast.FunctionDef) -> bool:
    return any("command(" in ast.unparse(each) or "group(" in ast.unparse(each) for each in node.decorator_list)


def main() -> int:
    """Print all places of the project."""
    found = []
    for folder in (PACKAGE, *(PROJECT / name for name in ("bench", "tests", "tools"))):
        for name, source in sources(folder.rglob("*.py"), PROJECT).items():
            found += [f"{name}: {line}\n    begin with a verb or a noun" for line in half_sentences(source)]
            found += [f"{name}: {fault}" for fault in (bad_names(source) if "/test_" in name else ())]
            found += [f"{name}:{phrase}" for phrase in (stilted(source) if folder == PACKAGE else ())]
    for name, modules in homonyms(sources(PACKAGE.rglob("*.py"))).items():
        found.append(f"zsched: {name} is defined in {' and '.join(modules)}: give one of them another name")
    sys.stdout.writelines(f"{each}\n" for each in found)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
