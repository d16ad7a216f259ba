"""URLs of Redis: one check for clients, commands and daemons, which repeats no part of a password."""

import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.prefix import needs_prefix
from zsched import AsyncClient, Client
from zsched.cli import program
from zsched.cluster import ClusterRedis
from zsched.config.settings import load_settings
from zsched.errors import ConfigError
from zsched.storage.connection import Link, link_of

Door = Callable[[str], Link]

DOORS: dict[str, Door] = {
    "client": lambda url: Client.from_url(url)._link,
    "asynchronous client": lambda url: AsyncClient.from_url(url)._link,
    "environment": lambda url: link_of(load_settings(env={"ZSCHED_REDIS_URL": url})),
}
NAMES = ("host", "port", "db", "username", "password", "path", "max_connections")

# URLs, and the meaning of each.
MEANT: dict[str, dict[str, Any]] = {
    "redis://h": {"host": "h"},
    "redis://h/": {"host": "h"},
    "redis://h:1/07": {"host": "h", "port": 1, "db": 7},
    "redis://H.Example.org.:65535/1": {"host": "h.example.org.", "port": 65535, "db": 1},
    "redis://redis_1-a:6379/0": {"host": "redis_1-a", "port": 6379, "db": 0},
    "redis://": {},
    "redis:///3": {"db": 3},
    "redis://user@h": {"host": "h", "username": "user"},
    "redis://user:@h": {"host": "h", "username": "user"},
    "redis://:@h": {"host": "h"},
    "redis://us%40er:p%2F%23%40%3F%3Aw@h/0": {"host": "h", "db": 0, "username": "us@er", "password": "p/#@?:w"},
    "redis://:p@s:s@h/0": {"host": "h", "db": 0, "password": "p@s:s"},
    "redis://h/1?db=2": {"host": "h", "db": 2},
    "redis://h?max_connections=5&socket_timeout=0.5": {"host": "h", "max_connections": 5},
    "redis://h?username=u&password=p%26w": {"host": "h", "username": "u", "password": "p&w"},
    "redis://h?decode_responses=true&protocol=3&health_check_interval=9": {"host": "h"},
    "redis://[::1]": {"host": "::1"},
    "redis://[fe80::1%eth0]:7/2": {"host": "fe80::1%eth0", "port": 7, "db": 2},
    "rediss://h:6380/0?ssl_ca_certs=/ca&ssl_cert_reqs=required": {"host": "h", "port": 6380, "db": 0},
    "unix:///run/r.sock": {"path": "/run/r.sock"},
    "unix:///run/redis@1.sock?db=4": {"path": "/run/redis@1.sock", "db": 4},
    "unix://user:p%20w@/run/r%20s.sock": {"path": "/run/r s.sock", "username": "user", "password": "p w"},
}

HOST, FORM = "host and port cannot be read", "not a Redis URL"
DB, SOCKET, SPACE = "the number of the database", "the socket's path", "a space or a line end"
OPTION, AGAIN = "it has an option", "is malformed or repeated; write it once:"

# URLs that are refused, by a word of the reason. Their secrets are s3cr3t and w0rd.
REFUSED: dict[str, tuple[Any, ...]] = {
    DB: ("redis://h/abc", "redis://h/1/", "redis://h/1/2", "redis://h/-1", "redis://h/+1", "redis://h/1.0", "redis://h/%31",
         "redis://h//", f"redis://h/{'9' * 5000}", "redis://u:63/w0rd@h", "redis://h/١"),
    HOST: ("redis://h:", "redis://h:0", "redis://h:65536", "redis://h:-1", "redis://h:a", "redis://::1:6379", "redis://[::1",
           "redis://::1]", "redis://[::g]", "redis://h1,h2", "redis://h..i", "redis://.h", f"redis://{'h' * 64}",
           "redis://$HOST:6379/0", "redis://{host}", "redis://höst", "redis://h%20i", "redis://:6379/0", "redis://:s3cr3t",
           "redis://u:s3cr3t/w0rd", "redis://:s3cr3t[w0rd@h", "redis://:s3cr3t℀w0rd@h", "redis://:s3cr3t\udc80w0rd@h",
           "redis://:s3cr3t/w0rd"),
    SPACE: (" redis://h", "redis://h ", "redis://h/1 ", "redis://h/1\n", "redis://h\t", "redis://h /1",
            "redis://:s3cr3t w0rd@h", "redis+sentinel://:s3cr3t w0rd@h/m", "redis://h/1?db=1\r\n"),
    FORM: ("", "h", "h:6379", "localhost:6379/0", "http://h", "redis:/h", "redis:h", "REDIS://h", "'redis://h'",
           "redis://:s3cr3t#w0rd@h", "redis://:p@ss/w0rd@h", "redis://:p@ss/w#rd@h", "redis://u:63?w0rd@h/0", "redis://u:63/1#w0rd@h",
           "redis://h/0#x", "unix:/run/r.sock", "redis+tls://h", "redis+socket:///r", "redis://u:63?client_name=w0rd@h/0",
           "redis://:s3cr3t?w0rd@h/0"),
    SOCKET: ("unix://", "unix:///", "unix://run/r.sock", "unix:///r%00.sock", "unix://:s3cr3t/w0rd@/run/r.sock"),
    OPTION: ("redis://h?x=1", "redis://h?DB=1", "redis://h/0?retries=1", "redis://h?host=other", "redis://h?path=/x",
             "redis://h?connection_class=x", "redis://h?credential_provider=x", "redis://h?retry=x",
             "redis://h?ssl_ca_certs=/ca", "redis://h?password=s3cr3t&w0rd", "redis://h?password=s3cr3t&w0rd=1",
             "redis+sentinel://h/m?x=1", "redis+cluster://h?x=1"),
    f"option db {AGAIN} db=0": (
        "redis://h?db=", "redis://h?db", "redis://h?db=1&db=2", "redis://h?db=a", "redis://h?db=-1", "unix:///r?db=1.5",
        "redis+sentinel://h/m?db=x"),
    f"option max_connections {AGAIN} max_connections=50": ("redis://h?max_connections=1", "redis+cluster://h?max_connections=-1"),
    f"option socket_timeout {AGAIN} socket_timeout=2.5": tuple(
        f"redis://h?socket_timeout={each}" for each in ("0", "-1", "nan", "inf", "x", "1e3")),
    f"option ssl_cert_reqs {AGAIN} ssl_cert_reqs=required": ("rediss://h?ssl_cert_reqs=maybe",),
    "only database 0": ("redis+cluster://h/1",),
    "the hosts of the Sentinels": ("redis+sentinel://h..i/m", "redis+sentinel://:s3cr3t,w0rd/m"),
    "not a text": (None, 5, True, b"redis://:s3cr3t@h", ["redis://:s3cr3t@h"], {"url": "redis://:s3cr3t"}, object),
}  # fmt: skip
SECRETS = ("s3cr3t", "w0rd", "ss/w", "w#rd")


def parts(link: Link) -> dict[str, Any]:
    options = link.pool.connection_kwargs | {"max_connections": link.pool.max_connections}
    return {name: options[name] for name in NAMES if options.get(name) is not None}


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__cause__)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("url", MEANT)
def test_a_url_means_the_same_at_every_door(door: str, url: str) -> None:
    usual = parts(Link.from_url("redis://", 5.0)) if "max_connections" not in url else {}

    link = DOORS[door](url)

    assert {**usual, **MEANT[url]} == parts(link)
    assert (False, 2) == tuple(link.pool.connection_kwargs[name] for name in ("decode_responses", "protocol"))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("reason", REFUSED)
def test_an_odd_url_is_refused_with_its_value_and_a_remedy_and_without_its_password(door: str, reason: str) -> None:
    for url in REFUSED[reason]:
        with pytest.raises(ConfigError) as caught:
            DOORS[door](url)

        message = str(caught.value)
        assert reason in message, (url, message)
        assert any(remedy in message for remedy in ("; write ", "; remove it", ": remove the other")), message
        assert not any(secret in shown(caught.value) for secret in SECRETS), (url, shown(caught.value))


@pytest.mark.parametrize("url", ["redis://h/abc", "redis://h/1 ", "redis://:p@ss/w#rd@h"])
def test_a_command_and_a_daemon_refuse_what_a_client_refuses(url: str) -> None:
    for command in ("status", "daemon"):
        done = CliRunner().invoke(program, [command], env={"ZSCHED_REDIS_URL": url})

        assert (2, True) == (done.exit_code, done.output.startswith("zsched: ZSCHED_REDIS_URL='redis://"))
        assert "write redis://host:6379/0" in done.output
        assert not any(secret in done.output for secret in SECRETS)


@needs_prefix
@pytest.mark.parametrize("url", ["redis+cluster://h/1", "redis+cluster://:s3cr3t/w0rd@h", "redis+cluster://h?x=1", 5])
def test_rqs_client_of_a_cluster_has_the_same_check(url: Any) -> None:
    with pytest.raises(ConfigError, match=r"^redis url ") as caught:
        ClusterRedis.from_url(url)

    assert "s3cr3t" not in shown(caught.value)


def test_settings_have_no_password_in_their_repr() -> None:
    url = "redis+sentinel://:s3cr3t@h/m?sentinel_password=w0rd"

    told = repr(load_settings(env={"ZSCHED_REDIS_URL": url})) + repr(Client.from_url(url)._link)

    assert not any(secret in told for secret in SECRETS)


@pytest.mark.parametrize("given", ["redis://u:" + "s3cr3t" * 20, b"redis://:s3cr3t", ["redis://:s3cr3t"]])
def test_something_that_is_not_a_client_is_refused_without_a_password(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"^redis=.*not a redis\.Redis") as caught:
        Client(given)

    assert "s3cr3t" not in shown(caught.value)


PIECES = (
    "/",
    "?",
    "#",
    "@",
    ":",
    "&",
    "=",
    "?db=",
    "&password=",
    "/1",
    "%",
    "%2F",
    "[",
    "]",
    " ",
    "\n",
    "\0",
    "℀",
    "é",
    ",",
    "'",
)
BETWEEN = st.lists(st.sampled_from(PIECES) | st.characters(codec="utf-8"), max_size=5).map("".join)
FORMS = (
    "redis://:{}@h:7/1", "redis://u:{}@h/1", "rediss://u:{}@h", "unix://:{}@/run/r.sock", "redis+sentinel://:{}@h/m/1",
    "redis://h:7/1?password={}",
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(("s3cr3t", "63")), BETWEEN, st.sampled_from(FORMS))
@example("s3cr3t", "\n", FORMS[-1])
@example("63", "?db=", FORMS[1])
@example("s3cr3t", "@/", FORMS[3])
def test_a_password_reaches_redis_unchanged_or_the_url_is_refused_without_a_part_of_it(
    first: str, between: str, form: str
) -> None:
    password = f"{first}{between}w0rd"
    if "?" not in form or "\0" not in password:  # no option has a NUL
        assert password == parts(Link.from_url(form.format(quote(password, safe="")), 5.0))["password"]

    try:
        link = Link.from_url(form.format(password), 5.0)
        told, taken = link.where, parts(link)["password"]
    except ConfigError as error:
        told, taken = shown(error), None
    assert not any(secret in told for secret in SECRETS)
    assert taken in (None, unquote(password), unquote(password.replace("+", " ")))
