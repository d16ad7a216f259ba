"""Crontabs: the import of each line, and the zone that this machine's cron uses."""

import re
from textwrap import dedent
from typing import Any

import pytest

from zsched.imports.crontab import command_of, read_crontab
from zsched.imports.found import ImportSource, Item

FUNC = "app.tasks.run_command"


def read(text: str, name: str = "/etc/cron.d/jobs", **given: Any) -> ImportSource:
    return read_crontab(name, dedent(text).encode(), FUNC, {"tz": "UTC"}, owner=f"crontab:{name}", **given)


def only(source: ImportSource) -> Item:
    assert [] == source.refusals
    (item,) = source.items
    return item


def problem(text: str, **given: Any) -> str:
    source = read(text, **given)
    assert [] == source.items
    (refusal,) = source.refusals
    return refusal.text()


def test_a_line_calls_the_function_with_its_command_its_user_and_the_variables_above() -> None:
    item = only(read("# weekly\nSHELL=/bin/sh\n\n47 6\t* * 7\troot\ttest -x /bin/true && /bin/true\nMAILTO=x\n"))

    assert (4, FUNC) == (item.place, item.func)
    assert {
        "cron": "47 6 * * 7",
        "tz": "UTC",
        "args": ["test -x /bin/true && /bin/true"],
        "kwargs": {"user": "root", "environment": {"SHELL": "/bin/sh"}, "stdin": None},
        "description": "test -x /bin/true && /bin/true",
    } == item.options


@pytest.mark.parametrize(
    "given", [{"name": "alice.cron", "user": "alice"}, {"name": "/var/spool/cron/crontabs/alice"}], ids=str
)
def test_lines_of_a_users_crontab_have_no_user_field(given: dict[str, str]) -> None:
    options = only(read("0 5 * * 1 tar -zcf /var/backups/home.tgz /home/\n", **given)).options

    assert ("0 5 * * 1", ["tar -zcf /var/backups/home.tgz /home/"]) == (options["cron"], options["args"])
    assert "alice" == options["kwargs"]["user"]


PROBLEMS: list[tuple[str, dict[str, str], str]] = [
    *((line, {}, "give --user if the lines of this crontab have no users")
      for line in ("0 5 * * 1 /usr/bin/backup now", "@daily backup --all", "@hourly $HOME/bin/x y")),
    *((line, {}, "/etc/cron.d/jobs:1: neither a variable (name=value) nor ")
      for line in ("A=", "A='b' c", '"A=b', "17 * * *", "@daily root", "@daily root ", "* * * * * root", "hello")),
    ("0 5 * * * * backup", {"user": "alice"}, "'*' is in the place of the command"),
    ("0 5 * * * * backup", {}, "'*' is in the place of the user's name"),
    *((f"{macro} root true", {}, f"{macro!r} is not a time of cron; write one of @hourly")
      for macro in ("@Daily", "@every_minute", "@")),
    ("@daily root a", {"name": "/etc/cron.d/php.dpkg-old"}, "cron ignores files with this name in cron.d"),
    ("@daily root a\0b", {}, "a NUL ends it, for cron and for the shell"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "given", "told"), PROBLEMS)
def test_a_line_that_cron_would_not_run_is_refused(line: str, given: dict[str, str], told: str) -> None:
    assert told in problem(f"{line}\n", **given)


@pytest.mark.parametrize(
    ("line", "variable"),
    [
        ("MAILTO=root", ("MAILTO", "root")),
        ("MAILTO = root ", ("MAILTO", "root")),
        ('MAILTO=""', ("MAILTO", "")),
        ("A='  b c '", ("A", "  b c")),  # blanks at the end go even from quotes
        ("A=\"'b'\"", ("A", "b")),
        ("A='\"b'", ("A", '"b')),
        ("A=b'c'", ("A", "b'c'")),
        ("A==b", ("A", "=b")),
        ("A=b\x0c", ("A", "b")),
        ("A=\u00a0b\u00a0", ("A", "\u00a0b\u00a0")),
        ('"A b"= "c" ', ("A b", "c")),
        ("PATH=$HOME/bin:$PATH", ("PATH", "$HOME/bin:$PATH")),
        ("A=b 'c' = d", ("A", "b 'c' = d")),
        ("A=b # no comment", ("A", "b # no comment")),
    ],
)
def test_variables_are_read_by_the_rules_of_cron(line: str, variable: tuple[str, str]) -> None:
    item = only(read(f"{line}\n@daily root true\n"))

    assert dict([variable]) == item.options["kwargs"]["environment"]


def test_a_variable_counts_from_its_line_on() -> None:
    first, second, third = read("@daily root a\nA=1\n@daily root b\nA=2\nB=3\n@daily root c\n").items

    environments = [item.options["kwargs"]["environment"] for item in (first, second, third)]
    assert [{}, {"A": "1"}, {"A": "2", "B": "3"}] == environments


@pytest.mark.parametrize(
    ("text", "command", "stdin"),
    [
        ("date", "date", None),
        ("date +\\%F", "date +%F", None),
        ("mail -s hi joe%Joe,%%Where are you?%", "mail -s hi joe", "Joe,\n\nWhere are you?\n"),
        ("cat%", "cat", None),
        ("cat%%", "cat", "\n"),
        ("cat%a", "cat", "a\n"),
        ("cat%a\\%b%c", "cat", "a%b\nc\n"),
        ("printf 'a\\n\\t'", "printf 'a\\n\\t'", None),
        (r"printf '\%s\n' 'a\\b'", r"printf '%s\n' 'a\b'", None),
        (r"printf '\%s\n' 'a\\\%b'", r"printf '%s\n' 'a\%b'", None),
        (r"printf '\%s\n' 'a\xb\n'", r"printf '%s\n' 'a\xb\n'", None),
        (r"printf '\%s\n' 'a\\\\b\\'", r"printf '%s\n' 'a\\b\'", None),
        (r"echo a\\%b", "echo a\\", "b\n"),
        (r"cat%a\\b\\%c\\\%d%e", "cat", "a\\\\b\\%c\\\\%d\ne\n"),
        (r"cat%first%100\%\\x%", "cat", "first\n100%\\\\x\n"),
        ("sed 's/a$/b\\", "sed 's/a$/b\\", None),
        ("grep é%ü", "grep é", "ü\n"),
    ],
)
def test_a_percent_sign_ends_the_command_and_begins_its_input(text: str, command: str, stdin: str | None) -> None:
    assert (command, stdin) == command_of(text)


@pytest.mark.parametrize(
    ("line", "command", "stdin"),
    [
        ("@daily root cat%in  ", "cat", "in  \n"),
        ("0 0 * * * root cat% \t", "cat", " \t\n"),
        ("@daily  root \t ls a\\ ", "ls a\\ ", None),
        ("@daily root cat%in  \r", "cat", "in  \n"),
    ],
)
def test_blanks_at_the_end_of_a_line_belong_to_the_command(line: str, command: str, stdin: str | None) -> None:
    item = only(read(f"  {line}\n"))

    assert (command, stdin) == (item.options["args"][0], item.options["kwargs"]["stdin"])


def test_reboot_is_refused_with_an_alternative_and_the_rest_is_imported() -> None:
    source = read("@reboot logcheck nice logcheck -R\n2 * * * * logcheck nice logcheck\n", name="/etc/cron.d/logcheck")

    (refusal,) = source.refusals
    assert refusal.text().startswith(
        "/etc/cron.d/logcheck:1: @reboot is not a time, and schedules outlive machines; run"
    )
    assert ["2 * * * *"] == [item.options["cron"] for item in source.items]


def test_an_id_stays_when_lines_move_or_get_another_time() -> None:
    before = read("1 1 * * * root a\n2 2 * * * root b\n").items
    after = read("# new\n\n3 3 * * * root b\n1 1 * * * root a\n").items

    assert [one.id for one in before] == [one.id for one in reversed(after)]
    assert all(one.id.startswith("jobs-") for one in before)


def test_lines_with_the_same_command_are_numbered() -> None:
    first, second, other = read("1 1 * * * root a\n2 2 * * * root a\n3 3 * * * alice a\n").items

    assert f"{first.id}-2" == second.id
    assert first.id != other.id


def test_ids_are_valid_whatever_the_name_of_the_file() -> None:
    item = only(read("@daily root a\n", name="/home/ü/" + "a.b " * 30 + "crontab"))

    assert re.fullmatch(r"[A-Za-z0-9_-]{1,80}", item.id)


def test_only_newlines_end_a_line_of_a_crontab() -> None:
    item = only(read("@daily root printf 'a\x0bb\x85c\u2028d'\r\n"))

    assert ["printf 'a\x0bb\x85c\u2028d'"] == item.options["args"]
    assert item.options["description"].isprintable()


def test_bytes_that_are_not_utf_8_are_refused_with_their_line() -> None:
    source = read_crontab("jobs", b"@daily root a\n@daily root \xff\n", FUNC, {"tz": "UTC"}, owner="crontab:jobs")

    assert ["jobs:2: it is not UTF-8 text; write the file in UTF-8"] == [refusal.text() for refusal in source.refusals]
    assert 1 == len(source.items)


def test_a_byte_order_mark_is_removed_from_the_first_line() -> None:
    source = read_crontab("jobs", b"\xef\xbb\xbfA=b\n@daily root a\n", FUNC, {"tz": "UTC"}, owner="crontab:jobs")

    assert {"A": "b"} == only(source).options["kwargs"]["environment"]


@pytest.mark.parametrize(
    ("ends", "number"), [(["@daily root b", "A=b", "hello", "\t@daily root b"], 1), (["# done", "  ", "\t#", ""], 0)]
)
def test_an_unterminated_last_line_is_remarked_because_cron_ignores_the_file(ends: list[str], number: int) -> None:
    told = "its last line has no line end, so Debian's cron ignores the whole file; this import reads it"

    for end in ends:
        remarks = read(f"@daily root a\n{end}").remarks
        assert number == sum(told in remark for remark in remarks)
        assert number or not remarks


def test_an_import_remarks_differences_between_cron_and_zsched() -> None:
    remarks = " ".join(read("MAILTO=root\nCRON_TZ=Asia/Seoul\n@daily root a\n").remarks)

    assert "output of commands is not mailed (MAILTO)" in remarks
    assert "CRON_TZ is the zone of the lines below it, as for cronie; Debian's cron ignores it" in remarks


def test_cron_tz_is_the_zone_of_the_lines_below_it_and_tz_is_for_the_command() -> None:
    source = read(
        """\
        TZ=America/New_York
        0 9 * * * root a
        CRON_TZ=Asia/Seoul
        0 9 * * * root b
        CRON_TZ = "Japan"
        @daily root c
        CRON_TZ=""
        0 9 * * * root d
        """
    )

    assert [] == source.refusals
    assert ["UTC", "Asia/Seoul", "Japan", "UTC"] == [item.options["tz"] for item in source.items]
    assert {"TZ": "America/New_York", "CRON_TZ": "Asia/Seoul"} == source.items[1].options["kwargs"]["environment"]


@pytest.mark.parametrize(
    ("zone", "remedy"),
    [
        ("EST", '"America/New_York"'), ("JST-9", '"Asia/Tokyo"'), ("Europe/Berln", '"Europe/Berlin"'),
        ("+09:00", '"Etc/GMT-9"'), ("Tokyo Standard Time", '"Asia/Tokyo"'), ("XYZ", "IANA name"),
    ],
)  # fmt: skip
def test_lines_below_a_cron_tz_that_is_not_a_zone_are_refused_with_a_remedy(zone: str, remedy: str) -> None:
    source = read(f"0 9 * * * root a\nCRON_TZ={zone}\n0 9 * * * root b\n")

    assert [1] == [item.place for item in source.items]
    (refusal,) = source.refusals
    assert 3 == refusal.place
    assert f"CRON_TZ={zone!r}" in refusal.problem
    assert remedy in refusal.problem


def test_an_id_of_a_file_whose_name_begins_with_a_dash_begins_with_another_sign() -> None:
    assert only(read("@daily root a\n", "/etc/cron.d/-a-b")).id.startswith("_a-b-")
