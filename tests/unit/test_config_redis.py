"""Addresses of Redis: Sentinels in URLs, the file and the environment; passwords of systemd; commands of the doctor."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.prefix import needs_prefix
from tests.unit.test_config import write
from zsched.config.settings import Settings, load_settings
from zsched.config.urls import SentinelUrl, address_of
from zsched.errors import ConfigError
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.shell import Shell

URL = "redis+sentinel://h1:26379,h2:26380/mymaster/0"


@pytest.mark.parametrize(
    ("url", "sentinels", "master", "plain"),
    [
        ("redis+sentinel://h/m", [("h", 26379)], "m", "redis:///0"),
        ("redis+sentinel://h1:1,h2/m/", [("h1", 1), ("h2", 26379)], "m", "redis:///0"),
        ("redis+sentinel://[::1]:7,[fe80::1%eth0]/m.a-s_9/12", [("::1", 7), ("fe80::1%eth0", 26379)], "m.a-s_9", "redis:///12"),
        ("rediss+sentinel://u:p%40w@h/m/3?socket_keepalive=yes", [("h", 26379)], "m", "rediss://u:p%40w@/3?socket_keepalive=yes"),
        ("redis+sentinel://:p@w@h/m?a=1&sentinel_username=s&b=2", [("h", 26379)], "m", "redis://:p@w@/0?a=1&b=2"),
    ],
)  # fmt: skip
def test_a_sentinel_url_is_read_into_parts(url: str, sentinels: list[tuple[str, int]], master: str, plain: str) -> None:
    parsed = SentinelUrl.parse(url)

    assert (tuple(sentinels), master, plain) == (parsed.sentinels, parsed.master, parsed.plain)


def test_options_of_the_sentinels_are_separated_from_options_of_the_master() -> None:
    parsed = SentinelUrl.parse(URL + "?sentinel_username=u&sentinel_password=p%26w&sentinel_ssl=true&socket_timeout=2")

    assert {"sentinel_username": "u", "sentinel_password": "p&w", "sentinel_ssl": "true"} == parsed.options
    assert "redis:///0?socket_timeout=2" == parsed.plain


SENTINELS, MASTER, NODES = "the hosts of the Sentinels", "add the master's name", "the nodes cannot be read"
BAD_URLS = {
    f"{NODES}; write redis+cluster://host:6379,host2:6379": ["redis+cluster://"],
    NODES: ["redis+cluster://h1,,h2", "redis+cluster://h:port", "redis+cluster://:se/cr3t@h"],
    "a Redis Cluster has only database 0": ["redis+cluster://h/1", "redis+cluster://h?db=2"],
    MASTER: ["redis+sentinel://", "redis+sentinel://h1,h2", "redis+sentinel://h1/my%20master"],
    "hosts, master and database cannot be read": ["redis+sentinel://h1,h2/0/m"],
    SENTINELS: ["redis+sentinel:///m"] + [f"redis+sentinel://{each}/m" for each in ("h1,,h2", "h1:port", "h1:70000")],
    "it has an option sentinel_timeout that a connection": ["redis+sentinel://h1/m?sentinel_timeout=3"],
    "write it once: sentinel_password=text": ["redis+sentinel://h1/m?sentinel_password="],
    "write it once: sentinel_ssl=true": ["redis+sentinel://h1/m?sentinel_ssl=yes"],
    "two passwords of the Sentinels": ["redis+sentinel://h1/m?sentinel_password=a&sentinel_password_file=/f"],
    "": ["redis+sentinel://:se/cr3t@h/m", "redis+sentinel://u:cr3t@h"],
}


@pytest.mark.parametrize(("url", "message"), [(url, message) for message, urls in BAD_URLS.items() for url in urls])
def test_a_bad_url_is_refused_with_the_mistake_and_without_its_password(url: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(env={"ZSCHED_REDIS_URL": url})

    assert str(caught.value).startswith(f"ZSCHED_REDIS_URL='{url.partition(':')[0]}://")
    assert message in str(caught.value)
    assert not any(secret in str(caught.value) for secret in ("cr3t", ":se"))


def test_a_url_of_sentinels_is_kept_unchanged() -> None:
    assert URL == load_settings(env={}, flags={"redis.url": URL}).redis.url


@pytest.mark.parametrize("secret", ["sentinel_password=x", "sentinel_username=u&sentinel_password=x"])
def test_a_password_of_the_sentinels_in_a_flag_is_refused(secret: str) -> None:
    with pytest.raises(ConfigError, match="every user of this machine"):
        load_settings(env={}, flags={"redis.url": f"{URL}?{secret}"})


@pytest.mark.parametrize(
    ("url", "joined"),
    [
        ("", "redis+sentinel://h1:26379,h2:26380/mymaster/0"),
        ("url = 'redis:///3'\n", "redis+sentinel://h1:26379,h2:26380/mymaster/3"),
        ("url = 'rediss://me:pw@/1?ssl_ca_certs=/ca'\n", "rediss+sentinel://me:pw@h1:26379,h2:26380/mymaster/1?ssl_ca_certs=/ca"),
    ],
)  # fmt: skip
def test_sentinels_and_master_become_part_of_the_url(tmp_path: Path, url: str, joined: str) -> None:
    file = write(tmp_path, f"[redis]\n{url}sentinels = ['h1:26379', 'h2:26380']\nmaster = 'mymaster'\n")

    settings = load_settings(file, env={})

    assert joined == settings.redis.url
    assert (("h1:26379", "h2:26380"), "mymaster") == (settings.redis.sentinels, settings.redis.master)


def test_the_environment_separates_sentinels_by_commas_and_removes_them_if_empty(tmp_path: Path) -> None:
    env = {"ZSCHED_REDIS_SENTINELS": "h1:26379, h2:26380", "ZSCHED_REDIS_MASTER": "mymaster"}

    assert URL == load_settings(env=env).redis.url
    assert Settings() == load_settings(env={"ZSCHED_REDIS_SENTINELS": ""})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sentinels = ['h']", "sentinels: one without the other; give the Sentinels and the name of their master"),
        ("master = 'm'", "master: one without the other"),
        ("master = 'm/1'\nsentinels = ['h']", "master='m/1': write the master's name"),
        ("master = 'm'\nsentinels = ['h:0']", "'h:0' is not an address of a Sentinel; write host:26379"),
        ("master = 'm'\nsentinels = 5", "sentinels=5: write a list of words"),
        ("url = 'redis://h/0'\nmaster = 'm'\nsentinels = ['h']", "write redis://user@/0 without a host"),
        ("url = 'unix:///s'\nmaster = 'm'\nsentinels = ['h']", "write redis://user@/0 without a host"),
        ("url = 'redis+sentinel://h/m'\nmaster = 'm'\nsentinels = ['h']", "write redis://user@/0 without a host"),
        ("sentinel_password_file = '/f'", "no Sentinels are named"),
        ("url = 'redis+sentinel://h/m?sentinel_password=p'\nsentinel_password_file = '/f'", "two passwords of"),
        ("url = 'redis+sentinel://:p@h/m'\npassword_file = '/f'", "two passwords; remove the one in the URL"),
    ],
)
def test_contradicting_sentinel_settings_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, f"[redis]\n{text}\n")

    with pytest.raises(ConfigError) as caught:
        load_settings(file, env={})

    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_master_and_sentinels_have_separate_passwords(tmp_path: Path) -> None:
    file = write(tmp_path, "[redis]\npassword_file = '/m'\nsentinel_password_file = '/a b'\n")

    settings = load_settings(file, env={"ZSCHED_REDIS_URL": URL})

    assert "/m" == settings.redis.password_file
    assert {"sentinel_password_file": "/a b"} == SentinelUrl.parse(settings.redis.url).options


def test_a_password_of_the_sentinels_in_the_url_is_not_used_for_the_master(tmp_path: Path) -> None:
    file = write(tmp_path, "[redis]\npassword_file = '/m'\n")

    assert "/m" == load_settings(file, env={"ZSCHED_REDIS_URL": URL + "?sentinel_password=p"}).redis.password_file


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://localhost:6379/0", "localhost:6379/0"),
        ("redis://localhost", "localhost:6379/0"),
        ("redis:///3", "localhost:6379/3"),
        ("redis://LocalHost/?db=2", "localhost:6379/2"),
        ("redis://h/1?db=2", "h:6379/2"),  # redis-py takes the query's
        ("rediss://Cache.example:6380/1", "cache.example:6380/1"),
        ("redis://ann:s3cret@h:1/0", "h:1/0"),
        ("redis://:s3c@ret@h:1/0?password=s3cret&username=ann", "h:1/0"),
        ("redis://[::1]:7000/0", "[::1]:7000/0"),
        ("unix:///run/redis.sock?db=4", "unix:/run/redis.sock/4"),
        ("unix://ann:s3cret@/run/redis.sock", "unix:/run/redis.sock/0"),
        ("redis+sentinel://:s3cret@b,a:1/main/2?sentinel_password=s3cret", "sentinels:a:1,b:26379/main/2"),
        ("redis+sentinel://a:1,b/main/2", "sentinels:a:1,b:26379/main/2"),
    ],
)
def test_an_address_is_the_configured_host_port_and_database(url: str, address: str) -> None:
    assert address == address_of(url)


def test_an_address_has_the_sentinels_of_the_settings() -> None:
    env = {"ZSCHED_REDIS_SENTINELS": "b:1,a:2", "ZSCHED_REDIS_MASTER": "main", "ZSCHED_REDIS_URL": "redis://x:y@/3"}

    assert "sentinels:a:2,b:1/main/3" == address_of(load_settings(env=env).redis.url)


def test_the_settings_name_the_place_of_the_address(tmp_path: Path) -> None:
    file, url = tmp_path / "zsched.toml", "redis://h:1/0"
    file.write_text(f'[redis]\nurl = "{url}"\n')
    env = {"ZSCHED_REDIS_URL": url}
    sentinels = {"ZSCHED_REDIS_SENTINELS": "a:1", "ZSCHED_REDIS_MASTER": "main"}

    found = [
        load_settings(env={}),
        load_settings(file, env={}),
        load_settings(file, env=env),
        load_settings(file, env=env, flags={"redis.url": url}),
        load_settings(env=sentinels),
    ]

    assert [
        "the default, as ZSCHED_REDIS_URL is not set",
        f"{file}: [redis] url",
        "ZSCHED_REDIS_URL",
        "--redis-url",
        "ZSCHED_REDIS_SENTINELS, ZSCHED_REDIS_MASTER",
    ] == [one.redis.given_by for one in found]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "redis-password").write_text("of systemd\n")
    return {"CREDENTIALS_DIRECTORY": str(tmp_path)}


@pytest.mark.parametrize(
    ("url", "password"),
    [
        ("redis://host:6379/0", "of systemd"),
        ("redis://zsched@host:6379/0", "of systemd"),  # a user without its password
        ("unix:///run/redis.sock?db=0", "of systemd"),
        ("redis+sentinel://zsched@h1,h2/mymaster/0?sentinel_password=theirs", "of systemd"),
        ("redis://:secret@host:6379/0", None),
        ("redis://me:secret@host", None),
        ("unix:///run/redis.sock?password=secret", None),
        ("redis+sentinel://:secret@h1,h2/mymaster/0", None),
    ],
)
def test_a_credential_is_the_password_of_redis_unless_the_url_has_one(
    env: dict[str, str], url: str, password: str | None
) -> None:
    redis = load_settings(env=env | {"ZSCHED_REDIS_URL": url}).redis

    assert (password, url) == (redis.read_password(), redis.url)


def test_a_configured_file_takes_precedence_over_a_credential(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")

    settings = load_settings(env=env | {"ZSCHED_REDIS_PASSWORD_FILE": str(tmp_path / "mine")})

    assert "mine" == settings.redis.read_password()


@pytest.mark.parametrize("text", ["", "\n"])  # no unit can give an empty one
def test_a_blank_credential_means_a_redis_without_a_password(env: dict[str, str], tmp_path: Path, text: str) -> None:
    (tmp_path / "redis-password").write_text(text)

    assert load_settings(env=env).redis.read_password() is None


@pytest.mark.parametrize("folder", ["", "/nowhere", "/dev/null"])
def test_settings_without_credentials_have_no_password(folder: str) -> None:
    assert load_settings(env={"CREDENTIALS_DIRECTORY": folder}).redis.read_password() is None


def test_a_user_in_the_url_is_combined_with_a_password_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret")
    env = {"ZSCHED_REDIS_URL": "redis://zsched@host/0", "ZSCHED_REDIS_PASSWORD_FILE": str(tmp_path / "password")}

    assert "secret" == load_settings(env=env).redis.read_password()


KEY = "zsched:{default}:meta"


def shell(url: str, serializer: str = "pickle", password: str | None = None, rq_prefix: str = "rq") -> Shell:
    return Shell(Link.from_url(url, 1.0, password), serializer, rq_prefix)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://localhost:6379/0", f"redis-cli GET '{KEY}'"),
        ("redis://me:secret@db:6380/2", f"redis-cli -h db -p 6380 -n 2 GET '{KEY}'"),
        ("rediss://db/0", f"redis-cli -h db --tls GET '{KEY}'"),
        ("unix:///run/redis.sock?db=1", f"redis-cli -s /run/redis.sock -n 1 GET '{KEY}'"),
        ("redis+sentinel://a:26379,b:26379/main/0", f"redis-cli -h MASTER GET '{KEY}'"),
    ],
)
def test_the_redis_cli_command_uses_the_redis_of_the_settings(url: str, said: str) -> None:
    assert said == shell(url).written(["redis-cli", "GET", KEY])


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("redis://localhost:6379/0", {}, "rq worker email"),
        (
            "redis://localhost:6379/1",
            {"serializer": "json"},
            "RQ_REDIS_URL=redis://localhost:6379/1 rq worker --serializer json email",
        ),
        ("redis://:secret@db/0", {}, "RQ_REDIS_URL=redis://:PASSWORD@db/0 rq worker email"),
        ("redis://me:secret@db/0", {}, "RQ_REDIS_URL=redis://USER:PASSWORD@db/0 rq worker email"),
        ("redis://:secret@localhost:6379/0", {}, "RQ_REDIS_URL=redis://:PASSWORD@localhost:6379/0 rq worker email"),
        ("redis://db/0", {"password": "secret"}, "RQ_REDIS_URL=redis://:PASSWORD@db/0 rq worker email"),
        ("redis://me@db/0", {"password": "secret"}, "RQ_REDIS_URL=redis://USER:PASSWORD@db/0 rq worker email"),
        ("rediss://localhost:6379/0", {}, "RQ_REDIS_URL=rediss://localhost:6379/0 rq worker email"),
        ("rediss://db?ssl_ca_certs=/a&db=1", {}, "RQ_REDIS_URL='rediss://db?ssl_ca_certs=/a&db=1' rq worker email"),
        ("unix:///run/redis.sock?db=1", {}, "RQ_REDIS_URL='unix:///run/redis.sock?db=1' rq worker email"),
        ("unix://:secret@/run/redis.sock", {}, "RQ_REDIS_URL=unix://:PASSWORD@/run/redis.sock rq worker email"),
        ("redis+sentinel://a:26379/main/0", {}, "zsched worker email"),
        ("redis://db/0", {"rq_prefix": "{a}:rq"}, "RQ_KEY_PREFIX='{a}:rq' RQ_REDIS_URL=redis://db/0 rq worker email"),
    ],
)
def test_the_worker_command_uses_the_redis_of_the_settings(url: str, options: dict[str, str], said: str) -> None:
    assert said == shell(url, **options).written(["rq", "worker", "email"])


@pytest.mark.parametrize("url", ["redis://localhost", "redis+sentinel://a:26379/main/0"])
@pytest.mark.parametrize("queue", ["--worker-class=os.system", "-c", "a;b", "$(b)", "`b`", "a'b", 'a"b', "a\nb", "a b"])
def test_a_queue_is_one_word_of_the_worker_command_and_no_option(url: str, queue: str) -> None:
    command = shlex.split(shell(url, "json").written(["rq", "worker", "email", queue]))

    separated = ["--"] if queue.startswith("-") else []
    assert [*separated, "email", queue] == command[command.index("worker") + 1 :][-2 - len(separated) :]


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("redis://localhost:6379/0", {"serializer": "json"}, "rq resume"),
        ("redis://:secret@db/2", {}, "RQ_REDIS_URL=redis://:PASSWORD@db/2 rq resume"),
        ("redis://localhost", {"rq_prefix": "{a}:rq"}, "RQ_KEY_PREFIX='{a}:rq' rq resume"),
        ("redis+sentinel://a:26379/main/1", {}, "redis-cli -h MASTER -n 1 DEL rq:suspended"),
        pytest.param(
            *("redis+sentinel://a/main", {"rq_prefix": "{a}:rq"}, "redis-cli -h MASTER DEL '{a}:rq:suspended'"),
            marks=needs_prefix,
        ),
    ],
)
def test_the_command_that_resumes_workers_reaches_the_redis_of_the_settings(
    url: str, options: dict[str, str], said: str
) -> None:
    assert said == shell(url, **options).written(["rq", "resume"])


@needs_prefix
@pytest.mark.parametrize("verb", ["worker", "resume"])
def test_a_command_of_rq_follows_the_slot_of_a_cluster(verb: str) -> None:
    prefix = "{a}:rq"
    link = Link.from_url("redis+cluster://db:7000", 1.0, keys=Keys("a", prefix))

    environment = "RQ_KEY_PREFIX='{a}:rq' RQ_REDIS_URL=redis+cluster://db:7000"
    command = f"rq {verb} --connection-class zsched.cluster.ClusterRedis"
    assert f"{environment} {command}" == Shell(link, rq_prefix=prefix).written(["rq", verb])


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"host": "db", "db": 2, "password": "secret"}, "redis://:PASSWORD@db:6379/2"),
        ({"host": "db", "port": 7, "ssl": True}, "rediss://db:7/0"),
        ({"unix_socket_path": "/run/redis.sock"}, "'unix:///run/redis.sock?db=0'"),
    ],
)
def test_a_command_of_rq_reaches_the_redis_of_an_adopted_client(given: dict[str, Any], url: str) -> None:
    link = Link.adopt(redis.Redis(**given))

    assert f"RQ_REDIS_URL={url} rq worker email" == Shell(link).written(["rq", "worker", "email"])
