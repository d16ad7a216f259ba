"""A master, its replicas and the Sentinels that watch them: real processes on ports of 127.0.0.1."""

import contextlib
import secrets
import signal
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.redises import connect
from tests.waiting import ENDS_S, eventually
from zsched.embedded import EmbeddedRedis, find_server
from zsched.embedded.guard import Guard
from zsched.embedded.server import Port

NAME = "mymaster"
# The master stops taking writes as soon as no replica follows it, so that a failover that was asked for loses few.
_SERVER = {"min-replicas-to-write": "1", "min-replicas-max-lag": "60", "repl-diskless-sync-delay": "0"}
# How often Sentinels ask and tell, in ms: what they wait for is counted in that. Redis 6.2 has no such command.
_HURRY = ("INFO-PERIOD", "200", "PUBLISH-PERIOD", "200")
# Nobody fails over because the machine was busy, until ``lose`` says that a server is gone.
_WATCH = {"down-after-milliseconds": "600000", "failover-timeout": "2000", "parallel-syncs": "2"}
_SOON_MS = 500


class Sentinels:
    """
    One master with *replicas* and three Sentinels, in separate folders, held by *guard*. *hurry* shortens the waits of
    Sentinel (an old master becomes a replica a second after a failover, not ten). *settings* are settings of the
    servers.

    ``url`` is the URL for zsched. Servers are identified by their ports.
    """

    def __init__(self, guard: Guard, replicas: int = 2, *, hurry: bool = True, **settings: str) -> None:
        self._guard, self._processes, self._held = guard, list[subprocess.Popen[bytes]](), list[Port]()
        self.folder = Path(tempfile.gettempdir(), f"zsched-{secrets.token_hex(6)}")
        guard.remove_at_end(self.folder)
        self.folder.mkdir(mode=0o700)
        config = _SERVER | settings
        first = EmbeddedRedis(tcp=True, guard=guard, config=config)
        self.servers = [first]
        first.start()
        assert first.port is not None
        for _ in range(replicas):
            replica = EmbeddedRedis(tcp=True, guard=guard, config=config | {"replicaof": f"127.0.0.1 {first.port}"})
            replica.start()
            self.servers.append(replica)
        eventually(lambda: self._replicas_of(first) == replicas)
        self.ports = [self._start_sentinel(first.port) for _ in range(3)]
        for port in self.ports if hurry else ():
            with contextlib.suppress(redis.ResponseError):
                self._ask(port, "DEBUG", *_HURRY)
        eventually(lambda: all(self._knows_all(port, replicas) for port in self.ports))

    @property
    def hosts(self) -> list[str]:
        """``host:port`` of every Sentinel."""
        return [f"127.0.0.1:{port}" for port in self.ports]

    @property
    def url(self) -> str:
        """The URL that a user writes."""
        return f"redis+sentinel://{','.join(self.hosts)}/{NAME}/0"

    def master(self) -> EmbeddedRedis:
        """The server that the first Sentinel takes for the master."""
        port = self._ask(self.ports[0], "GET-MASTER-ADDR-BY-NAME", NAME)[1]
        return next(server for server in self.servers if server.port == int(port))

    def fail_over(self) -> EmbeddedRedis:
        """
        Ask for another master. Return it when all Sentinels name it and the old one takes no writes, as no replica
        follows it. A Sentinel gives up a failover that takes longer than failover-timeout, so it is asked again.
        """
        old = self.master()

        def moved() -> bool:
            if self.master() is old:
                self._ask_for_failover()
            return self._name_another_than(old) and not self._replicas_of(old)

        eventually(moved, ENDS_S)  # a Sentinel on a machine that stopped for 2 s does nothing for the next 30 s
        return self.master()

    def lose(self, old: EmbeddedRedis) -> EmbeddedRedis:
        """Let the Sentinels notice that the master *old* is gone; return the new one when all of them name it."""
        for down_after_ms in (str(_SOON_MS), _WATCH["down-after-milliseconds"]):  # the new one may be busy
            for port in self.ports:
                self._ask(port, "SET", NAME, "down-after-milliseconds", down_after_ms)
            eventually(lambda: self._name_another_than(old), ENDS_S)
        return self.master()

    def stop_watching(self) -> None:
        """End all Sentinels."""
        for process in self._processes:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def _name_another_than(self, old: EmbeddedRedis) -> bool:
        named = {self._ask(port, "GET-MASTER-ADDR-BY-NAME", NAME)[1] for port in self.ports}
        return len(named) == 1 and int(named.pop()) != old.port

    def _ask_for_failover(self) -> None:
        with contextlib.suppress(
            redis.ResponseError
        ):  # NOGOODSLAVE: it has not heard of the replicas' last state; or INPROG
            self._ask(self.ports[0], "FAILOVER", NAME)

    def _replicas_of(self, server: EmbeddedRedis) -> int:
        with connect(server.tcp_url, retries=3) as client:  # Sentinel closes connections when it changes a role
            info = client.info("replication")
        return sum(1 for n in range(info["connected_slaves"]) if info[f"slave{n}"]["state"] == "online")

    def _knows_all(self, port: int, replicas: int) -> bool:
        told = self._ask(port, "MASTER", NAME)
        state = dict(zip(told[::2], told[1::2], strict=True))
        return (str(replicas), "2", "master") == (state["num-slaves"], state["num-other-sentinels"], state["flags"])

    def _ask(self, port: int, *command: str) -> list[str]:
        with connect(f"redis://127.0.0.1:{port}") as client:
            connection: Any = client.connection_pool.get_connection()  # as it is: the client parses these replies
            connection.send_command("SENTINEL", *command)
            reply = connection.read_response()
            connection.disconnect()
        return [part.decode() for part in reply] if isinstance(reply, list) else [reply.decode()]

    def _start_sentinel(self, master: int) -> int:
        binary, port = find_server().path, Port()
        config, log = self.folder / f"{port.number}.conf", self.folder / f"{port.number}.log"
        lines = [f"port {port.number}", "bind 127.0.0.1", f"dir {self.folder}", f"logfile {log}"]
        lines += [f"sentinel monitor {NAME} 127.0.0.1 {master} 2"]
        lines += [f"sentinel {key} {NAME} {value}" for key, value in _WATCH.items()]
        config.write_text("\n".join(lines) + "\n")
        process = self._guard.spawn([str(binary), str(config), "--sentinel"], cwd=self.folder)
        self._processes.append(process)
        self._held.append(port)
        if eventually(partial(self._state, port.number, process)) == "ended":
            said = log.read_text(errors="replace") if log.exists() else ""
            pytest.skip(f"{binary} does not run as Sentinel: {said[-500:]!r}")
        return port.number

    def _state(self, port: int, process: subprocess.Popen[bytes]) -> str:
        """Return the state of a Sentinel: up, or ended; "" while it starts."""
        if process.poll() is not None:
            return "ended"
        with contextlib.suppress(redis.ConnectionError):
            return "up" if self._ask(port, "MYID") else ""
        return ""
