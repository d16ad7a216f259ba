"""What every script of zsched/lua promises in its header, and the rules that all of them keep."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import zsched
from zsched.errors import ZschedError
from zsched.storage import scripts
from zsched.storage.keys import Keys
from zsched.storage.scripts import Scripts, load

LUA = Path(zsched.__file__).parent / "lua"
NAMES = sorted(path.stem for path in LUA.glob("*.lua"))
FILES = sorted(LUA.rglob("*.lua"))


def _bound(table: str, text: str) -> list[list[str]]:
    """The names of each ``local … = unpack(<table> …)``."""
    found = re.findall(rf"^local ([\w,\s]+?) = unpack\({table}(?:, 1, \d+)?\)$", text, re.MULTILINE)
    return [re.split(r",\s*", names) for names in found]


def _code(text: str) -> str:
    return re.sub(r"--.*", "", text)


@pytest.mark.parametrize("name", NAMES)
def test_a_header_says_purpose_keys_arguments_replies_and_entries(name: str) -> None:
    header = (LUA / f"{name}.lua").read_text().split("\nlocal ", 1)[0]

    assert re.match(rf"-- {name}: \w.*\.\n--\n-- KEYS   ", header)
    assert re.search(r"^-- ARGV   [\w.]", header, re.MULTILINE)
    assert re.search(r"^-- RETURNS  OK", header, re.MULTILINE)
    assert re.search(r"^-- LOGS   \w", header, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_the_header_names_the_keys_and_arguments_that_the_script_binds(name: str) -> None:
    script, source = load(name), (LUA / f"{name}.lua").read_text()

    assert [[f"{key}_key" for key in script.keys]] == _bound("KEYS", source)
    assert ([list(script.argv)] if script.argv else []) == _bound("ARGV", source)


@pytest.mark.parametrize("name", NAMES)
def test_arguments_before_rows_are_as_many_as_are_unpacked(name: str) -> None:
    script, source = load(name), (LUA / f"{name}.lua").read_text()
    limit = re.search(r"unpack\(ARGV, 1, (\d+)\)$", source, re.MULTILINE)

    has_rows = re.search(r"^--        \.\.\.  ", source, re.MULTILINE) is not None
    assert has_rows == (limit is not None)
    if limit:
        assert len(script.argv) == int(limit[1])


@pytest.mark.parametrize("name", NAMES)
def test_no_position_stands_below_the_bindings(name: str) -> None:
    code = _code(load(name).text)

    assert [] == re.findall(r"KEYS\[", code)
    assert [] == re.findall(r"ARGV\[\d+\]", code)
    assert 1 == code.count("unpack(KEYS)")


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_one_that_keys_py_knows(name: str) -> None:
    keys = Keys("default")

    assert all(callable(keys.named(key)) for key in load(name).keys)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_used_that_fakeredis_lacks_or_that_reshapes_a_payload(path: Path) -> None:
    assert [] == re.findall(r"\b(?:cmsgpack|struct|bit|cjson|sha1hex|setresp|breakpoint)\b", _code(path.read_text()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_only_reads_are_tried_with_pcall(path: Path) -> None:
    code = _code(path.read_text()).replace("local pcall = redis.pcall", "")
    tried = re.findall(r"\bpcall\('(\w+)'", code)

    assert len(tried) == len(re.findall(r"pcall", code))
    assert set(tried) <= {"HGET", "HMGET", "HGETALL", "XRANGE", "XREVRANGE", "PUBLISH"}  # PUBLISH writes nothing


def test_only_the_launch_and_the_fast_path_of_fire_queue_a_run() -> None:
    queueing = [path for path in FILES if re.search(r"'status', 'queued'", _code(path.read_text()))]

    assert ["fire.lua", "lib/launch.lua"] == [path.relative_to(LUA).as_posix() for path in queueing]


def test_only_one_piece_writes_the_value_of_a_schedule_that_is_paused_or_in_quarantine() -> None:
    writing = re.compile(r"'HSET', \w+, (\w+\.)?id, .*(lane|due_ms)|'HSET', (paused|quarantine)_key")

    found = [path for path in FILES if writing.search(_code(path.read_text()))]

    assert ["lib/lanes.lua"] == [path.relative_to(LUA).as_posix() for path in found]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_line_has_more_than_120_columns(path: Path) -> None:
    assert [] == [line for line in path.read_text(encoding="utf-8").splitlines() if len(line) > 120]


@pytest.mark.parametrize("name", NAMES)
def test_time_is_asked_at_most_once(name: str) -> None:
    assert load(name).text.count("'TIME'") <= 1


LEADERS = [name for name in NAMES if "expected_server" in _code(load(name).text)]


def test_a_script_that_knows_its_term_is_a_leaders_script() -> None:
    by_token = {name for name in NAMES if re.search(r"\btoken\b", _code((LUA / f"{name}.lua").read_text()))}

    assert {"acquire", "release"} == by_token - set(LEADERS)  # that makes a token; that takes back no more than its own


@pytest.mark.parametrize("name", LEADERS)
def test_a_leaders_script_begins_with_the_fence(name: str) -> None:
    text = _code(load(name).text)
    calls = re.findall(r"redis\.p?call\('(\w+)'", text)

    before_lease = calls[: calls.index("GET")]
    in_functions = ("XADD", "HSET", "TYPE")  # append and is_a
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


def test_a_piece_included_twice_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_files(monkeypatch, {"a.lua": "-- include lib/x.lua\n-- include lib/x.lua\n", "lib/x.lua": "local x\n"})

    with pytest.raises(ZschedError, match=r"a\.lua includes lib/x\.lua a second time"):
        load.__wrapped__("a")


def test_a_circular_include_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "a.lua": "-- include lib/x.lua\n",
        "lib/x.lua": "-- include lib/y.lua\n",
        "lib/y.lua": "-- include lib/x.lua\n",
    }
    _with_files(monkeypatch, files)

    with pytest.raises(ZschedError, match=r"lib/y\.lua includes lib/x\.lua a second time"):
        load.__wrapped__("a")


class _Channel:
    """Knows every script by the same name; remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def execute(self, *command: object) -> object:
        self.told.append(command)
        return b"sha" if command[0] == "SCRIPT" else [b"OK"]


def test_arguments_given_by_keyword_go_in_the_headers_order() -> None:
    channel = _Channel()

    Scripts(channel, Keys("mail")).call("pause", note="why", id="a")

    prefix = "zsched:{mail}:"
    keys = [prefix + key for key in ("meta", "log", "due:high", "due:normal", "due:low", "paused", "quarantine")]
    keys += [prefix + "recurring", prefix + "wake"]
    argv = [prefix + "schedule:", prefix + "template:", "-nmail", "a", "why"]
    assert ("EVALSHA", "sha", 9, *keys, *argv) == channel.told[-1]


def test_a_missing_argument_is_noticed_before_anything_is_sent() -> None:
    channel = _Channel()

    with pytest.raises(KeyError):
        Scripts(channel, Keys("mail")).call("pause", id="a")
    assert [] == channel.told
