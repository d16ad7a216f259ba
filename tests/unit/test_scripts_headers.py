"""The headers of all scripts of zsched/lua, the rules that all of them keep, and RQ's keys, defined once."""

import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import zsched
from tests.lua.bytecode import functions
from tests.prefix import needs_prefix
from tests.sources import PACKAGE, sources
from zsched.errors import ZschedError
from zsched.storage import rqkeys, scripts
from zsched.storage.keys import Keys
from zsched.storage.rqkeys import RqKeys
from zsched.storage.scripts import Scripts, load, names_in, piece, source

LUA = Path(zsched.__file__).parent / "lua"
NAMES = sorted(path.stem for path in LUA.glob("*.lua"))
FILES = sorted(LUA.rglob("*.lua"))
PIECES = [f"lib/{path.name}" for path in FILES if path.parent != LUA]
OF_LUA = set("KEYS ARGV redis string table math type tonumber tostring pairs ipairs next select unpack".split())
MOST_LOCALS, MOST_UPVALUES = 180, 50  # of a function; Lua's limits are 200 and 60


def _code(text: str) -> str:
    return re.sub(r"--.*", "", text)


@pytest.mark.parametrize("name", NAMES)
def test_an_expanded_script_has_keys_of_keys_py_and_calls_time_at_most_once(name: str) -> None:
    script, keys = load(name), Keys("default")

    assert all(callable(keys.named(key)) for key in script.keys)
    assert script.text.count("'TIME'") <= 1


# Some versions of Redis compile a script as the body of a function; others, and fakeredis, as a chunk.
@pytest.mark.parametrize("form", ["function f_sha1() {}\nend", "{}"], ids=["function", "chunk"])
@pytest.mark.parametrize("name", NAMES)
def test_a_script_compiles_below_the_limits_of_lua_and_declares_its_names(name: str, form: str) -> None:
    found = [*functions(form.format(load(name).text))]

    assert [] == [each for each in found if each.most_locals > MOST_LOCALS or each.upvalues > MOST_UPVALUES]
    assert set() == set().union(*(each.global_names for each in found)) - OF_LUA - {"f_sha1"}


# The scripts that an operator waits for most, with their pieces, as Redis gets them.
@pytest.mark.parametrize(("name", "most"), [("fire", 808), ("advance", 993), ("restore", 778), ("lost", 874)])
def test_an_expanded_script_is_no_longer_than_its_bound(name: str, most: int) -> None:
    assert len(load(name).text.splitlines()) <= most


@pytest.mark.parametrize("path", PIECES)
def test_the_header_of_a_piece_lists_the_names_that_it_uses_and_gives(path: str) -> None:
    code, given = _code(source(path)), names_in(source(path), "GIVES")
    names = set().union(*(each.global_names for each in functions(piece(path)))) - OF_LUA
    found = {name for name in names if not name.startswith("RQ_")}

    included = {name for each in _includes(path) for name in names_in(source(each), "GIVES")}
    assert found - included == set(names_in(source(path), "USES"))
    assert [] == [name for name in given if not re.search(rf"^(function |(\w+, )*){name}\b", code, re.MULTILINE)]
    assert set(given) <= set().union(*(words for file, words in _words().items() if file != path)), "its own name"


def _includes(path: str) -> set[str]:
    """Return the pieces that a piece includes, and those that they include."""
    direct = re.findall(r"^-- include (\S+)$", source(path), re.MULTILINE)
    return set(direct).union(*map(_includes, direct))


@cache
def _words() -> dict[str, set[str]]:
    """Return the words in the code of each file."""
    texts = {path.relative_to(LUA).as_posix(): path.read_text() for path in FILES}
    return {path: set(re.findall(r"\w+", _code(text))) for path, text in texts.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_header_lists_purpose_keys_arguments_replies_and_entries(name: str) -> None:
    header = (LUA / f"{name}.lua").read_text().split("\nlocal ", 1)[0]

    assert re.match(rf"-- {name}: \w.*\.\n--\n-- KEYS   ", header)
    assert re.search(r"^-- ARGV   [@\w.]", header, re.MULTILINE)
    assert re.search(r"^-- RETURNS  OK", header, re.MULTILINE)
    assert re.search(r"^-- LOGS   \w", header, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_uses_every_key_and_argument_that_its_header_names(name: str) -> None:
    script = load(name)

    bindings = [line for line in script.text.splitlines() if re.search(r" = unpack\((KEYS|ARGV, 1, \d+)\)$", line)]
    code = _code(script.text.replace(bindings[0], "", 1).replace(bindings[-1], "", 1))
    used = [*(f"{key}_key" for key in script.keys), *script.argv]
    assert [] == [word for word in used if not re.search(rf"\b{word}\b", code)]


@pytest.mark.parametrize("name", NAMES)
def test_scripts_use_no_position_below_the_bindings(name: str) -> None:
    code = _code(load(name).text)

    assert [] == re.findall(r"KEYS\[", code)
    assert [] == re.findall(r"ARGV\[\d+\]|unpack\(ARGV, \d+\)|= \d+, #ARGV", code)
    assert [1, 1 if load(name).argv else 0] == [code.count("unpack(KEYS)"), code.count("unpack(ARGV, 1, ")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scripts_use_no_library_that_fakeredis_lacks_or_that_reshapes_a_payload(path: Path) -> None:
    assert [] == re.findall(r"\b(?:cmsgpack|struct|bit|cjson|sha1hex|setresp|breakpoint)\b", _code(path.read_text()))


READS = set("GET HEXISTS HGET HMGET HGETALL XRANGE XREVRANGE PUBLISH".split())  # PUBLISH writes nothing


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_only_reads_are_tried_with_pcall(path: Path) -> None:
    code = _code(path.read_text()).replace("local pcall = redis.pcall", "")
    tried = re.findall(r"\bpcall\('(\w+)'", code)

    assert len(tried) == len(re.findall(r"pcall", code))
    assert set(tried) <= READS


def test_only_the_push_the_fast_path_of_fire_and_a_restored_template_have_the_status_queued() -> None:
    queueing = [path for path in FILES if re.search(r"'status', 'queued'", _code(path.read_text()))]

    assert ["fire.lua", "lib/push.lua", "restore.lua"] == [path.relative_to(LUA).as_posix() for path in queueing]


def test_only_one_piece_writes_the_value_of_a_schedule_that_is_paused_or_in_quarantine() -> None:
    writing = re.compile(r"'HSET', \w+, (\w+\.)?id, .*(lane|due_ms)|'HSET', (paused|quarantine)_key")

    found = [path for path in FILES if writing.search(_code(path.read_text()))]

    assert ["lib/lanes.lua"] == [path.relative_to(LUA).as_posix() for path in found]


def test_lines_of_scripts_have_at_most_120_columns() -> None:
    assert [] == [(path, line) for path in FILES for line in path.read_text().splitlines() if len(line) > 120]


LEADERS = [name for name in NAMES if "expected_server" in _code(load(name).text)]


def test_a_script_with_a_token_is_a_leaders_script() -> None:
    by_token = {name for name in NAMES if re.search(r"\btoken\b", _code((LUA / f"{name}.lua").read_text()))}

    assert {"acquire", "release"} == by_token - set(LEADERS)  # that makes a token; that takes back no more than its own


@pytest.mark.parametrize("name", LEADERS)
def test_a_leaders_script_begins_with_the_fence(name: str) -> None:
    text = _code(load(name).text)
    calls = re.findall(r"redis\.p?call\('(\w+)'", text)

    before_lease = calls[: calls.index("GET")]
    in_functions = ("XADD", "HSET", "HLEN", "SCARD", "ZCARD", "TYPE")  # append and is_a
    assert {"TIME", "HMGET"} >= {call for call in before_lease if call not in in_functions}
    assert 1 == text.count("if redis.call('GET', lease_key) ~= token then\n  return {'STALE'}")
    assert 1 == text.count("if server ~= expected_server then\n  return {'SERVER'}")


@pytest.mark.parametrize("name", NAMES)
def test_every_include_is_resolved_once(name: str) -> None:
    text = load(name).text

    assert "-- include" not in text
    headers = re.findall(r"^-- (\w+): .*\n(?:--.*\n)*--\n-- (?:USES|GIVES)", text, re.MULTILINE)
    assert len(headers) == len(set(headers))


def _with_files(monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> None:
    monkeypatch.setattr(scripts, "source", files.__getitem__)


VERB = "-- a: does.\n--\n-- KEYS   meta\n"


def test_a_piece_included_by_several_pieces_occurs_once_before_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "a.lua": f"{VERB}-- include lib/x.lua\n-- include lib/y.lua\nlocal a\n",
        "lib/x.lua": "-- x: is.\n-- include lib/z.lua\nlocal x\n",
        "lib/y.lua": "-- include lib/z.lua\nlocal y\n",
        "lib/z.lua": "local z\n",
    }
    _with_files(monkeypatch, files)

    code = "do\nlocal z\nend\n-- x: is.\ndo\nlocal x\nend\ndo\nlocal y\nend\nlocal a\n"
    assert f"{VERB}local meta_key = unpack(KEYS)\nlocal by = ''\n{code}" == load.__wrapped__("a").text


def test_a_script_sees_only_the_names_that_a_piece_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    header = "-- x: is.\n--\n-- GIVES  f(a, ...)  a function that\n--          is given\n--        b c  texts\n"
    body = "local own = 1\nb, c = own, own\nfunction f(a, ...)\nend\n"
    _with_files(monkeypatch, {"lib/x.lua": f"{header}--\n-- More.\n-- include lib/z.lua\n{body}"})

    assert f"{header}--\n-- More.\nlocal f, b, c; do\n{body}end\n" == piece("lib/x.lua")


def test_a_circular_include_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"a.lua": f"{VERB}-- include lib/x.lua\n", "lib/x.lua": "-- include lib/y.lua\n"}
    _with_files(monkeypatch, files | {"lib/y.lua": "-- include lib/x.lua\n"})

    with pytest.raises(ZschedError, match=r"a\.lua includes .*y\.lua includes lib/x\.lua: a circle"):
        load.__wrapped__("a")


def test_a_header_names_keys_and_arguments_and_has_a_place_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    header = (
        "-- a: does.\n--\n-- KEYS   lease @lanes\n-- ARGV   @term\n--        id  a schedule's\n--        ...  rows\n"
    )
    _with_files(monkeypatch, {"a.lua": f"{header}return ROWS\n"})

    script = load.__wrapped__("a")

    keys = ("lease", "due_high", "due_normal", "due_low")
    assert (keys, ("token", "expected_server", "id")) == (script.keys, script.argv)
    assert script.text == (
        f"{header}local lease_key, due_high_key, due_normal_key, due_low_key = unpack(KEYS)\n"
        "local token, expected_server, id = unpack(ARGV, 1, 3)\nlocal by = ''\nlocal ROWS = 4\nreturn ROWS\n"
    )


class _Channel:
    """A channel that knows every script by the same name, and remembers its calls."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def execute(self, *command: object) -> object:
        self.told.append(command)
        return b"sha" if command[0] == "SCRIPT" else [b"OK"]


def test_keyword_arguments_are_sent_as_texts_in_the_order_of_the_header() -> None:
    channel = _Channel()

    Scripts(channel, Keys("mail"), by="ann").call("pause", note="why", until_ms="", op="-", seen_version="", rows=["a"])

    prefix = "zsched:{mail}:"
    keys = [prefix + key for key in ("meta", "log", "due:high", "due:normal", "due:low", "paused", "quarantine")]
    keys += [prefix + key for key in ("recurring", "failing", "blocked", "resumes", "op:-")]
    argv = [prefix + "schedule:", "-nmail", "ann", "", "why", "", "a"]
    assert ("EVALSHA", load("pause").sha, "12", *keys, *argv) == channel.told[-1]


def test_a_missing_argument_is_noticed_before_anything_is_sent() -> None:
    channel = _Channel()

    with pytest.raises(KeyError):
        Scripts(channel, Keys("mail")).call("pause", rows=["a"])
    assert [] == channel.told


LITERAL = re.compile(r"(?<![\w-])rq:|:(dependents|dependencies)\b")


def test_only_rqkeys_py_contains_keys_of_rq() -> None:
    files = {name: source for name, source in sources(PACKAGE.rglob("*.py")).items() if LITERAL.search(source.text)}

    assert ["storage/rqkeys.py"] == [name for name, source in files.items() if any(map(LITERAL.search, source.texts))]


def test_python_has_each_kind_of_rqs_keys_that_scripts_name() -> None:
    in_python = inspect.getsource(rqkeys)

    kinds = {kind for path in FILES for kind in re.findall(r"\bRQ_([A-Z_]+)\b", path.read_text())}

    found = {kind.lower().replace("_", "-") for kind in kinds}
    assert {"execution"} == {kind for kind in found if f'"{kind}"' not in in_python}  # which scripts alone look at


@needs_prefix
@pytest.mark.parametrize("name", ["a", b"a", "a:b", b"\xff"])
def test_the_name_of_a_queue_is_read_back_from_its_key(name: str | bytes) -> None:
    rq = RqKeys("{app}:rq")

    assert name == rq.queue_name(rq.queue(name))
    assert isinstance(rq.job(name), type(name))
