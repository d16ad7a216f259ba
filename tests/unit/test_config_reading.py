"""Files that people give: how much is read of them, and how deep."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from zsched import ZschedError
from zsched.cli.parameters import content
from zsched.config.reading import MOST_BYTES, SMALL_BYTES, Watched, read_file, read_password_file, read_toml
from zsched.config.settings import load_settings
from zsched.errors import ConfigError
from zsched.storage.keyfile import read_keys
from zsched.testing import ManualScheduler

PARTS = 20_000
TOO_DEEP = {
    "a dotted key": "a" + ".a" * PARTS + " = 1",
    "a key in quotes": "\"a\" . 'b'" + '."a"' * PARTS + " = 1",
    "a table": "[a" + " . a" * PARTS + "]",
    "an inline table": "x = {a" + ".a" * PARTS + " = 1}",
    "a key behind a text that ends with more quotes": 'x = {s = """y""""", a' + ".a" * PARTS + " = 1}",
    "a key behind a literal text that ends with more quotes": "x = {s = '''y''''', a" + ".a" * PARTS + " = 1}",
    "a key behind an escaped quote": r'x = {s = "\"", a' + ".a" * PARTS + " = 1}",
}
READERS: dict[str, tuple[int, Callable[[str], object]]] = {
    "settings": (SMALL_BYTES, load_settings),
    "keys": (SMALL_BYTES, read_keys),
    "a password": (SMALL_BYTES, lambda file: read_password_file(file, "[redis] password_file")),
    "schedules, a crontab or a backup": (MOST_BYTES, lambda file: content(file, "a crontab")),
}
each_reader = pytest.mark.parametrize(("most", "read"), READERS.values(), ids=READERS)


@pytest.mark.parametrize("text", TOO_DEEP.values(), ids=TOO_DEEP)
def test_a_key_of_many_parts_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a key has more than 32 parts; give fewer \(at line 4, column 1\)$"):
        read_toml(f'# a.comment\nname = """\n"""\n{text}')


def test_a_text_of_very_many_names_is_refused() -> None:
    with pytest.raises(ValueError, match="it has 200,001 dots in names and numbers, more than 200,000; split it"):
        read_toml("[a.b]\n" * 200_001)


def test_a_key_of_32_parts_and_texts_with_more_dots_are_read() -> None:
    dotted, dots = ".".join("a" * 32), "a." * PARTS
    text = f'{dotted} = 1\nb = "{dots}"  # {dots}\nc = \'{dots}\'\nd = """\n{dots}"""\ne = [{"1.5," * 50}]'

    found = read_toml(text)

    assert [{"b": dots}, {"c": dots}, {"d": dots}] == [{name: found[name]} for name in "bcd"]


@pytest.mark.parametrize("text", ["x = " + "[" * PARTS, "x = " + "{a=" * PARTS, "x = " + "9" * 5000])
def test_settings_with_a_value_that_cannot_be_parsed_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "zsched.toml").write_text(text)

    with pytest.raises(ZschedError, match=r"^configuration file .*(nested too deeply|5000 digits)"):
        load_settings(tmp_path / "zsched.toml")


@each_reader
def test_a_file_beyond_the_bound_is_refused_with_name_size_and_remedy(
    most: int, read: Callable[[str], object], tmp_path: Path
) -> None:
    file = tmp_path / "large"
    file.touch(0o600)
    os.truncate(file, most + 1)

    with pytest.raises(ZschedError) as caught:
        read(str(file))

    assert str(file) in str(caught.value)
    assert f"it has more than {most:,} bytes; split it, or name another one" in str(caught.value)


@each_reader
def test_a_device_without_an_end_is_refused(most: int, read: Callable[[str], object]) -> None:
    with pytest.raises(ZschedError, match=f"/dev/zero.*more than {most:,} bytes"):
        read("/dev/zero")


@pytest.mark.parametrize(("reader", "said"), [("keys", "it has no key"), ("a password", "it is empty")])
def test_a_named_pipe_without_a_writer_is_empty(reader: str, said: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)

    with pytest.raises(ZschedError, match=said):
        READERS[reader][1](str(pipe))
    assert (b"", load_settings()) == (content(str(pipe), "a crontab"), load_settings(pipe))


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    os.write(writes, b"x" * 1000)
    os.close(writes)

    assert b"x" * 1000 == read_file(f"/dev/fd/{reads}")
    os.close(reads)


def test_the_file_of_a_test_is_bounded_too() -> None:
    with ManualScheduler() as scheduler, pytest.raises(OSError, match="more than 16,777,216 bytes"):
        scheduler.apply("/dev/zero")


def test_a_watched_file_that_could_not_be_used_is_read_again_though_it_has_not_changed(tmp_path: Path) -> None:
    refusals = [ConfigError("too many open files")]

    def read() -> str:
        if refusals:
            raise refusals.pop()
        return "content"

    watched = Watched(str(tmp_path / "file"), read, "before")

    assert ("before", "too many open files") == (watched.current(), watched.problem)
    assert ("content", "") == (watched.current(), watched.problem)
