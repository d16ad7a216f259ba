"""``rediss://`` with certificates made by openssl: accepted connections, and refusals with the reason."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders.clusters import PREFIX, Cluster
from tests.builders.daemons import DaemonProcess
from tests.builders.leaders import know
from tests.builders.redises import connect
from tests.integration.cluster.running import SETTINGS
from tests.prefix import RQ, needs_prefix
from tests.waiting import ENDS_S, WITHIN_S, eventually
from zsched import AsyncClient, Client, RedisRefused, RedisUnavailable
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.embedded.server import Port
from zsched.errors import ZschedError

pytestmark = pytest.mark.redis
DAYS = "3650"


@dataclass(frozen=True)
class TlsRedis:
    """A server that uses TLS on a port, with a certificate for "localhost"; and plain text on its socket."""

    server: EmbeddedRedis
    port: Port
    folder: Path

    def url(self, host: str = "localhost", **query: str) -> str:
        """
        Return the URL of the TLS port; *query* are options of redis-py, each with the name of a file in the folder.
        """
        options = "&".join(f"{name}={self.folder / file}" for name, file in query.items())
        return f"rediss://{host}:{self.port.number}/0{'?' if options else ''}{options}"


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=ENDS_S)


def make_ca(folder: Path, name: str) -> None:
    """Make ``<name>.crt`` and ``<name>.key`` of a CA, as strict as Python 3.13 and later ask."""
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key")
    openssl(folder, "req", "-x509", *key, "-out", f"{name}.crt", "-days", DAYS, "-subj", f"/CN={name}", *usage)


def make_certificate(folder: Path, name: str, ca: str, host: str = "DNS:localhost") -> None:
    """Make ``<name>.crt`` and ``<name>.key`` for *host*, signed by *ca*."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key")
    openssl(folder, "req", *key, "-out", f"{name}.csr", "-subj", f"/CN={name}")
    (folder / "names").write_text(f"subjectAltName={host}\nauthorityKeyIdentifier=keyid\n")
    signed = ("-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial", "-extfile", "names", "-days", DAYS)
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *signed)


def start(guard: Guard, folder: Path, auth_clients: str) -> TlsRedis:
    """Start a server; skip the test if this redis-server was built without TLS."""
    port = Port()
    files = {"cert-file": "server.crt", "key-file": "server.key", "ca-cert-file": "ca.crt"}
    config = {f"tls-{name}": str(folder / file) for name, file in files.items()}
    config |= {"tls-port": str(port.number), "tls-auth-clients": auth_clients}
    server = EmbeddedRedis(guard=guard, config=config)
    try:
        server.start()
    except ZschedError as error:
        if "tls" not in str(error).partition("its log ends:")[2]:
            raise
        pytest.skip(f"{server.server.path} ({server.server.version}) was built without TLS")
    return TlsRedis(server, port, folder)


@pytest.fixture(scope="module")
def guard() -> Iterator[Guard]:
    with Guard() as guard:
        yield guard


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificates of the server, a client, their CA, and an unrelated CA."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make certificates with")
    folder = tmp_path_factory.mktemp("certificates")
    for ca in ("ca", "another"):
        make_ca(folder, ca)
    for name in ("server", "client"):
        make_certificate(folder, name, "ca")
    make_certificate(folder, "node", "ca", "IP:127.0.0.1")  # of a Cluster, whose nodes name each other by address
    return folder


@pytest.fixture(scope="module")
def tls(guard: Guard, certificates: Path) -> TlsRedis:
    return start(guard, certificates, auth_clients="no")


def test_client_daemon_and_worker_speak_tls(tls: TlsRedis, guard: Guard, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(
        "from zsched import current_run\n\n\ndef note():\n    current_run().note(done=1)\n"
    )
    url = tls.url(ssl_ca_certs="ca.crt")
    client = Client.from_url(url)
    with connect(tls.server.url) as plain:
        know(plain)
        daemon = DaemonProcess(guard, url, REDIS_TIMEOUT_S=f"{WITHIN_S:g}")
        client.schedule("tasks.note", id="now", after=0)
        eventually(lambda: plain.llen(f"{RQ}:queue:default") == 1)

    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-m", "rq.cli", "worker", "--burst", "default"]
    env = os.environ | {"RQ_REDIS_URL": url, "PYTHONPATH": path}
    subprocess.run(command, cwd=tmp_path, env=env, check=True, timeout=ENDS_S, capture_output=True)

    eventually(lambda: [dict(run.note) for run in client.runs("now") if run.is_over] == [{"done": 1}])
    eventually(lambda: client.why("now").source.archive is not None)
    assert daemon.of("redis_lost") == []


@pytest.mark.anyio
async def test_an_asynchronous_client_speaks_tls(tls: TlsRedis) -> None:
    rows = ({"func": "app.task", "id": f"r{n}", "after": 3600, "args": ("x" * 2000,)} for n in range(2000))
    async with AsyncClient.from_url(tls.url(ssl_ca_certs="ca.crt"), "aio") as client:
        many = await client.schedule_many(rows)
        found = await asyncio.gather(*(client.get(f"r{n}") for n in range(100)))

        assert 2000 == many.created  # 4 MB: sends wait, too
        assert [f"r{n}" for n in range(100)] == [one.id for one in found]


@pytest.mark.parametrize(
    ("host", "query", "problem"),
    [
        ("localhost", {}, "self-signed|unable to get local issuer"),
        ("localhost", {"ssl_ca_certs": "another.crt"}, "self-signed|unable to get local issuer|signature failure"),
        ("127.0.0.1", {"ssl_ca_certs": "ca.crt"}, "not valid for '127.0.0.1'"),
    ],
    ids=["no CA named", "another CA", "another name"],
)
def test_an_untrusted_certificate_is_refused_with_the_remedy(
    tls: TlsRedis, guard: Guard, host: str, query: dict[str, str], problem: str
) -> None:
    told = rf"certificate that is not trusted here \(.*({problem}).*\); set the CA .*ssl_ca_certs="

    with pytest.raises(RedisRefused, match=told):
        Client.from_url(tls.url(host, **query)).schedule("tasks.note", after=3600)
    daemon = DaemonProcess(guard, tls.url(host, **query))

    assert 1 == daemon.wait()
    assert "not trusted here" in daemon.of("daemon_failed")[0]["reason"]


def test_a_client_certificate_is_sent_to_a_server_that_requires_it(guard: Guard, certificates: Path) -> None:
    strict = start(guard, certificates, auth_clients="yes")
    ours = {"ssl_certfile": "client.crt", "ssl_keyfile": "client.key"}

    assert Client.from_url(strict.url(ssl_ca_certs="ca.crt", **ours)).schedule("tasks.note", after=3600).id
    with pytest.raises(RedisUnavailable):
        Client.from_url(strict.url(ssl_ca_certs="ca.crt")).schedule("tasks.note", after=3600)


@needs_prefix
def test_the_nodes_of_a_cluster_are_followed_over_tls(tls: TlsRedis, guard: Guard, certificates: Path) -> None:
    files = {"cert-file": "node.crt", "key-file": "node.key", "ca-cert-file": "ca.crt"}
    settings = {f"tls-{name}": str(certificates / file) for name, file in files.items()}
    cluster = Cluster(guard, tls=settings | {"tls-auth-clients": "no"})
    url = f"{cluster.url}?ssl_ca_certs={certificates / 'ca.crt'}"
    client = Client.from_url(url, rq_prefix=PREFIX)
    daemon = DaemonProcess(guard, url, **SETTINGS)
    daemon.wait_for("hold_ended")

    cluster.move(cluster.another())
    run = client.schedule("app.run", id="later", after=0, durable=True).run_id

    with connect(cluster.owner().tcp_url) as owner:
        eventually(lambda: owner.exists(f"{PREFIX}:job:{run}"))
        eventually(lambda: owner.llen(f"{PREFIX}:queue:default") == 1)
    with pytest.raises(RedisRefused, match="not trusted here"):
        Client.from_url(cluster.url, rq_prefix=PREFIX).get("later")


def test_a_missing_ca_file_is_named(tls: TlsRedis) -> None:
    with pytest.raises((RedisRefused, RedisUnavailable), match=r"nowhere\.crt"):
        Client.from_url(tls.url(ssl_ca_certs="nowhere.crt")).schedule("tasks.note", after=3600)


def test_a_password_for_a_tls_url_is_not_sent_in_plain_text() -> None:
    """The server without TLS, or a program in between, sends bytes that are not TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)
        heard: list[bytes] = []

        def hear() -> None:
            connection, _ = listening.accept()
            listening.close()  # the client may try again, and nobody would answer
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(b"-ERR speak plainly\r\n")

        hearing = threading.Thread(target=hear)
        hearing.start()
        url = f"rediss://me:s3cret@127.0.0.1:{listening.getsockname()[1]}/0"

        with pytest.raises((RedisRefused, RedisUnavailable)):
            Client.from_url(url, timeout_s=WITHIN_S).schedule("tasks.note", after=3600)
        hearing.join()

    assert b"\x16\x03" == heard[0][:2]  # TLS' first record: a handshake
    assert b"s3cret" not in heard[0]
