"""The rights of each kind of process: checked against the scripts, the sources, and the file for Redis."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
import redis
import rq

from tests.documents import PROJECT
from tests.prefix import RQ, needs_prefix
from tests.sources import PACKAGE, Source, sources
from zsched.storage.keys import Keys
from zsched.storage.rights import _RQ_KEYS, SCRIPTS, USERS, Role, acl_file, commands_of, rights_of, rq_keys_of

LUA = PACKAGE / "lua"
ACL = PROJECT / "deploy" / "redis" / "users.acl"
# Calls of scripts whose command stands in a table, and their number: they set or delete fields of a hash.
FROM_TABLES = {"put.lua": 1, "put_recurring.lua": 2, "restore.lua": 1}
# What sends commands to a Redis that rights are for; zsched.testing and zsched.demo have one of their own.
SENDERS = ("storage", "daemon", "client", "tasks", "files", "metrics", "current.py")

# What each role runs, at most; a process of two roles runs what both do.
RUN_BY = {
    Role.CLIENT: ("storage/*.py", "client/*.py", "tasks/*.py", "files/*.py", "cli/*.py", "health/*.py"),
    Role.DAEMON: ("storage/*.py", "daemon/*.py", "metrics/*.py", "health/*.py", "cli/recovering/*.py"),
    Role.WORKER: ("current.py", "storage/jobs.py"),
    Role.WEB: ("storage/*.py", "client/*.py", "tasks/*.py", "files/*.py", "cli/*.py", "health/*.py", "web/*.py"),
}
OF_CONNECTIONS = {"cluster|slots", "client|setname", "hello", "multi", "discard", "ping", "role", "select"}
# What redis-py sends when a method of another name is called.
OF_METHODS = {
    "delete": "del", "pipeline": "exec", "watch": "unwatch", "sscan_iter": "sscan",
    "register_script": "evalsha script|exists script|load",
}  # fmt: skip
OF_ONE_RQ = {"client|info", "hdel", "zcount", "zpopmin"}  # which RQ 2 or RQ 3 has, and the other has not
OF_KINDS = {"workers": "queue_workers", "rl-keys": "limits", "rl": "limit_waiting"}  # RqKeys' method of another name


def test_the_acl_file_equals_the_generated_rights() -> None:

    assert acl_file(Keys("default", "rq")) == ACL.read_text(), (
        "make it anew: bin/zsched files users.acl > deploy/redis/users.acl"
    )


def test_every_script_belongs_to_a_role() -> None:
    assert {file.stem for file in LUA.glob("*.lua")} == {script for role in Role for script in SCRIPTS[role]}


def test_every_redis_call_of_a_script_is_accounted_for() -> None:
    hidden: dict[str, int] = {}

    for file in LUA.rglob("*.lua"):
        code = re.sub(r"--.*", "", file.read_text())
        calls = re.findall(r"\bp?call\((?!'[A-Z]+')", code)
        aliases = re.findall(r"redis\.p?call\b(?!\()", code)
        assert set(re.findall(r"local (\w+) = redis\.p?call\b(?!\()", code)) <= {"call", "pcall"}, file
        assert len(aliases) == len(re.findall(r"local p?call = redis\.p?call", code)), file
        if calls:
            hidden[file.relative_to(LUA).as_posix()] = len(calls)

    assert FROM_TABLES == hidden
    for script in ("put", "put_recurring", "fire"):  # which have them, by themselves and by an include
        assert {"hset"} <= commands_of(script)
    assert {"hdel", "hset"} <= commands_of("fire")


def test_the_rights_of_a_script_have_the_kinds_of_rqs_keys_that_it_builds() -> None:
    for file in LUA.rglob("*.lua"):
        code = re.sub(r"--.*", "", file.read_text())
        assert not re.search(r"rq:|rq}:", code), f"{file}: begin the key with RQ_<KIND>"

    rq = Keys("default").rq
    of_runs = {f"{RQ}:{kind}:*" for kind in ("job", "queue", "wip", "failed", "executions")}
    assert of_runs <= rq_keys_of("lost", rq)
    assert {f"{RQ}:job:*", f"{RQ}:rl:*"} == rq_keys_of("run_now", rq) - {f"{RQ}:queue:*"}
    assert set() == rq_keys_of("quarantine", rq)
    assert not any("pubsub" in key for key in rq_keys_of("cancel_run", rq))


@needs_prefix
def test_rights_follow_the_prefix_of_rqs_keys() -> None:
    keys = Keys("default", rq_prefix="{app}:rq")

    for roles in USERS.values():
        usual, other = rights_of(roles, Keys("default")), rights_of(roles, keys)
        assert usual.commands == other.commands
        for patterns, moved in ((usual.keys, other.keys), (usual.channels, other.channels)):
            assert sorted(pattern.replace(f"{RQ}:", "{app}:rq:") for pattern in patterns) == list(moved)


def sent(source: Source) -> Iterator[str]:
    """Yield texts in the places of commands: first in a call or a tuple, but not keys of a dict."""
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            continue
        parts = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple | ast.List) else ()
        if parts and isinstance(first := parts[0], ast.Constant) and re.fullmatch("[A-Z]{3,}", str(first.value)):
            yield str(first.value).lower()


def test_every_command_named_in_the_sources_belongs_to_a_role() -> None:
    methods = dir(redis.Redis)
    files = [file for sender in SENDERS for file in (PACKAGE / sender).rglob("*.py")]
    files += [PACKAGE / sender for sender in SENDERS if sender.endswith(".py")]
    files.remove(PACKAGE / "storage" / "rivals.py")  # for doctor and import, which ask as the operator
    files.remove(PACKAGE / "storage" / "server.py")  # it asks for settings in doubt, and does without them

    named = {word for source in sources(files).values() for word in sent(source)}
    commands = {word for word in named if any(re.match(rf"{word}(_|$)", method) for method in methods)}

    assert {"evalsha", "xread", "blpop", "zscan", "memory", "hsetnx"} <= commands  # it sees them
    granted = {command.partition("|")[0] for role in Role for command in rights_of([role], Keys("default")).commands}
    assert set() == commands - granted


def words_in(sources: Iterable[Source]) -> set[str]:
    """Return names of attributes, and texts."""
    return {word for source in sources for words in (source.attribute_names, source.texts) for word in words}


def sources_of(role: Role) -> list[Source]:
    """Return all modules of zsched that a process of *role* may run."""
    files = [file for part in RUN_BY[role] for file in PACKAGE.glob(part)]
    files = [file for file in files if file.name not in ("rights.py", "rivals.py")]
    assert files
    return list(sources(files).values())


@cache
def commands_of_rq() -> set[str]:
    """Return the commands that RQ's sources send, by redis-py's methods or by scripts."""
    package = Path(rq.__file__).parent
    called = words_in(sources(package.rglob("*.py"), package).values())
    found = {command for method, commands in OF_METHODS.items() if method in called for command in commands.split()}
    found |= {word.lower() for text in called for word in re.findall(r"redis\.p?call\(\W*([A-Za-z]+)", text)}
    return found | called


def test_a_worker_may_send_every_command_of_rqs_own_scripts() -> None:
    texts = [file.read_text() for file in Path(rq.__file__).parent.rglob("*.py")]
    called = {word.lower() for text in texts for word in re.findall(r"redis\.p?call\('([A-Za-z]+)'", text)}

    assert set() == called - set(rights_of([Role.WORKER], Keys("default")).commands)


@pytest.mark.parametrize("role", Role)
def test_every_command_of_a_role_is_sent_by_its_sources(role: Role) -> None:
    scripts = {command for script in SCRIPTS[role] for command in commands_of(script)}
    ours = {word for source in sources_of(role) for word in sent(source)}
    theirs = commands_of_rq() if role in (Role.WORKER, Role.WEB) else set()

    unused = {
        command
        for command in set(rights_of([role], Keys("default")).commands) - scripts - theirs - OF_CONNECTIONS - OF_ONE_RQ
        if command.partition("|")[0] not in ours
    }

    assert set() == unused


@pytest.mark.parametrize("role", [role for role in Role if SCRIPTS[role]])
def test_every_script_and_kind_of_rqs_keys_of_a_role_is_named_in_its_sources(role: Role) -> None:
    named = words_in(sources_of(role))
    kinds = {key.partition(":")[0] for key in _RQ_KEYS[role].split()} - {"*"}

    assert set() == set(SCRIPTS[role]) - named
    assert set() == {OF_KINDS.get(kind, kind) for kind in kinds} - named


def test_a_namespace_has_its_own_keys_and_channel_and_a_worker_has_no_keys_of_zsched() -> None:
    rights = rights_of([Role.CLIENT], Keys("mail"))

    assert "zsched:{mail}:*" in rights.keys
    assert {f"{RQ}:pubsub:*", "zsched:{mail}:wake"} == set(rights.channels)
    assert "{default}" not in rights.rule.replace(RQ, "")
    assert (f"{RQ}:*",) == rights_of([Role.WORKER], Keys("default")).keys


def test_a_user_of_two_roles_has_the_rights_of_both() -> None:
    keys = Keys("default")
    roles = ([Role.WORKER, Role.CLIENT], [Role.WORKER], [Role.CLIENT])
    both, worker, client = (rights_of(each, keys) for each in roles)

    assert set(worker.commands) | set(client.commands) == set(both.commands)
    assert {f"{RQ}:*", "zsched:{default}:*"} == set(both.keys)


@pytest.mark.parametrize("user", ["operator", *USERS])
def test_every_password_must_be_filled_in(user: str) -> None:
    [line] = [line for line in ACL.read_text().splitlines() if line.startswith(f"user {user} ")]

    assert f" #SHA256-OF-{user} " in line
    assert not re.search(r"nopass| >", line)
