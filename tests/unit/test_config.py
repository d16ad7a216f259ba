import dataclasses
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import zsched
from zsched.config.parsing import NOTIFY, QUEUES, URGENCY, listen_parts, path
from zsched.config.reading import read_password_file
from zsched.config.settings import _PARSERS, Settings, load_settings, variable_of
from zsched.config.urls import redact
from zsched.core.options.arguments import check_queue
from zsched.core.options.define import PRESET_OPTIONS, merged_presets
from zsched.errors import ConfigError, InvalidSchedule
from zsched.storage.keyfile import KeyFile, new_key_line

OF_SENTINELS = [("redis", "master"), ("redis", "sentinel_password_file")]  # not allowed without Sentinels
NAMED = ("queues", "urgencies", "notify")  # of tables under names of the user's: in a file only
SHIPPED = Path(__file__).parents[2] / "config" / "zsched.toml"


def write(folder: Path, text: str) -> Path:
    file = folder / "zsched.toml"
    file.write_text(text)
    return file


def keys() -> list[tuple[str, str]]:
    """Return every key of Settings as (section, name)."""
    found = []
    for field in dataclasses.fields(Settings):
        value = getattr(Settings(), field.name)
        if field.name in NAMED:
            continue
        if dataclasses.is_dataclass(value):
            found += [(field.name, inner.name) for inner in dataclasses.fields(value) if inner.metadata]
        else:
            found.append(("", field.name))
    return found


def value_of(settings: Settings, section: str, name: str) -> object:
    return getattr(getattr(settings, section) if section else settings, name)


@pytest.mark.parametrize("file", [None, SHIPPED])
def test_settings_of_no_file_and_of_the_shipped_file_are_the_defaults(file: Path | None) -> None:
    assert Settings() == load_settings(file, env={})


def test_the_shipped_file_documents_every_key_with_its_default() -> None:
    uncommented = re.sub(r"(?m)^#(?=[a-z_]+ = |\[)", "", SHIPPED.read_text())

    documented = tomllib.loads(uncommented)
    queues, urgencies, sinks = (documented.pop(heading) for heading in ("queues", "urgency", "notify"))
    assert NOTIFY.keys.keys() == sinks["ops"].keys() | {"url_file"}
    assert {"email": {"max_per_second": 100}} == queues
    assert set(PRESET_OPTIONS) == urgencies["newsletter"].keys() == URGENCY.keys.keys()

    flat = {("", key): value for key, value in documented.items() if not isinstance(value, dict)}
    flat |= {(section, key): v for section, t in documented.items() if isinstance(t, dict) for key, v in t.items()}
    defaults = {key: value_of(Settings(), *key) for key in keys()}
    assert "/run/credentials/" in flat[("redis", "password_file")]
    assert flat[("archive", "path")].endswith("/archive.db")
    assert (3, 3) == (len(flat[("redis", "sentinels")]), len(flat[("redis", "cluster")]))
    flat[("redis", "sentinels")] = flat[("redis", "cluster")] = []
    for name in ("password_file", "master", "sentinel_password_file"):  # TOML has no null: the text says what holds
        flat[("redis", name)] = None
    flat[("archive", "path")] = flat[("metrics", "listen")] = None
    assert "/var/lib/zsched-web/accounts-default.toml" == flat[("web", "accounts_file")]
    flat[("web", "accounts_file")] = flat[("web", "proxy_header")] = flat[("web", "proxy_role_header")] = None
    assert flat[("signing", "keys_file")].startswith("/etc/zsched/")
    flat[("signing", "keys_file")] = None
    flat[("worker", "allow_callables")] = flat[("worker", "task_modules")] = []
    assert ["127.0.0.1"] == flat[("web", "proxy_addresses")]
    flat[("web", "proxy_addresses")] = []
    assert "{default}:rq" == flat[("rq", "prefix")]
    flat[("rq", "prefix")] = flat[("", "by")] = None
    assert defaults == {key: tuple(value) if isinstance(value, list) else value for key, value in flat.items()}


def test_flags_win_over_the_environment_and_the_environment_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'namespace = "file"\n[daemon]\nidle_ms = 11\nbatch_max = 12\n')
    env = {"ZSCHED_NAMESPACE": "env", "ZSCHED_DAEMON_IDLE_MS": "21"}

    settings = load_settings(file, env, {"namespace": "flag", "daemon.idle_ms": None})

    assert ("flag", 21, 12) == (settings.namespace, settings.daemon.idle_ms, settings.daemon.batch_max)


def test_the_environment_can_name_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'namespace = "elsewhere"\n')

    assert load_settings(env={"ZSCHED_CONFIG": str(file)}).namespace == "elsewhere"


@pytest.mark.parametrize("key", keys(), ids=".".join)
def test_every_key_can_be_set_in_the_environment(key: tuple[str, str]) -> None:
    default = value_of(Settings(), *key)
    given = "localhost:9464" if key == ("metrics", "listen") else "some-file"
    text = given if default is None else ",".join(default) if isinstance(default, tuple) else str(default)
    behind = {"ZSCHED_REDIS_SENTINELS": "h", "ZSCHED_REDIS_MASTER": "m"} if key in OF_SENTINELS else {}

    settings = load_settings(env=behind | {variable_of(key): text})

    assert (default or given) == (value_of(settings, *key) or default or given)


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("ZSCHED_DAEMON_ALLOW_EVICTION", "yes", True),
        ("ZSCHED_DAEMON_ALLOW_EVICTION", "0", False),
        ("ZSCHED_DAEMON_SCRIPT_TARGET_MS", "2", 2.0),
        ("ZSCHED_RQ_ALLOW_CALLABLES", "app.tasks.*, app.mail.send", ("app.tasks.*", "app.mail.send")),
        ("ZSCHED_RQ_NATIVE", "no", False),
        ("ZSCHED_RQ_NATIVE", "mail, reports", ("mail", "reports")),
        ("ZSCHED_REDIS_URL", "unix:///run/redis.sock?db=3", "unix:///run/redis.sock?db=3"),
    ],
)
def test_the_environment_writes_values_as_text(variable: str, text: str, expected: object) -> None:
    settings = load_settings(env={variable: text})

    section, name = next(key for key in keys() if variable_of(key) == variable)
    assert expected == value_of(settings, section, name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[redis]\nurl = 6379", "[redis] url=6379: not a text; write redis://host:6379/0"),
        ("[redis]\ntimeout_s = true", "[redis] timeout_s=True: write a number from 0.05 to 300"),
        ("[redis]\ntimeout_s = nan", "timeout_s=nan: write a number"),
        ("[daemon]\nlease_ms = 2000.5", "[daemon] lease_ms=2000.5: write a whole number from 200 to 60000"),
        ("[daemon]\nlease_ms = 199", "lease_ms=199: write a whole number"),
        ("[daemon]\nallow_eviction = 1", "allow_eviction=1: write true or false"),
        ("[daemon]\nrenew_ms = 1000", "renew_ms=1000 must be less than half of lease_ms=2000"),
        ("[rq]\nserializer = 'yaml'", "serializer='yaml': write one of: pickle, json"),
        ("[rq]\nallow_callables = []", "allow_callables=[]: write a list of words"),
        ("[rq]\nnative = 1", "[rq] native=1: write true, false, or a list of queues"),
        ("[rq]\nnative = ['a', '']", "native=['a', '']: write true, false, or a list of queues"),
        ("[daemon]\nlease = 2000", "[daemon] lease is not a setting; did you mean lease_ms?"),
        ("[redis]\nlease_ms = 2000", "[redis] lease_ms is not a setting; it belongs in section [daemon]"),
        ("[redis]\nnamespace = 'x'", "it belongs above the first section"),
        ("lease_ms = 2000", "lease_ms is not a setting; it belongs in section [daemon]"),
        ("[deamon]\nlease_ms = 2000", "[deamon] is not a section; did you mean daemon?"),
        ("redis = 'redis://h'", "redis is a section: write [redis] and its keys below"),
        ("namespace = 'Big'", "namespace='Big': use 1 to 32 of a-z, 0-9 and _"),
        ("namespace = ", "configuration file"),
        ("[redis]\npassword_file = ''", "password_file='': write the path of a file"),
        ("[queues.a]\nmax_per_second = 0", "[queues.a] max_per_second=0: write a number above 0, at most 1000000"),
        *(
            (f"[queues.email]\nmax_per_second = {text}", f"max_per_second={value}: write a number above 0")
            for text, value in (("-1", -1), ("1000001", 1000001), ("true", True), ("inf", "inf"))
        ),
        ("[queues.a]\nmax_per_minute = 6", "[queues.a] max_per_minute is not a setting; did you mean max_per_second?"),
        ("[queues]\nmax_per_second = 6", "[queues] max_per_second=6: is outside of a table; write [queues.<name>]"),
        ("queues = 5", "queues is a heading: write [queues.<name>] and its keys below"),
        ("[queues.'two words']\nmax_per_second = 6", "[queues.'two words']: not a usable name; write 1 to 128"),
        ("[qeues.email]\nmax_per_second = 6", "[qeues] is not a section; did you mean queues?"),
        ("[urgency.asap]\npriority = 'urgent'", "[urgency.asap] priority='urgent': write one of: high, normal, low"),
        ("[urgency.asap]\nat_front = 1", "at_front=1: write true or false"),
        ("[urgency.asap]\nexpires_after = 0", "[urgency.asap] expires_after=0: write a number from 0.001"),
        ("[urgency.asap]\njitter = -1", "[urgency.asap] jitter=-1: write a number from 0"),
        ("[urgency.asap]\nqueue = 'q'", "[urgency.asap] queue is not a setting; there are: priority, at_front"),
        ("[urgency.'a b']\njitter = 1", "[urgency.'a b']: not a usable name; write 1 to 64 of A-Z"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, text)

    with pytest.raises(ConfigError) as caught:
        load_settings(file, env={})

    assert message in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"ZSCHED_REDIS_URI": "redis://h"}, "ZSCHED_REDIS_URI in the environment is not a setting; did you mean"),
        ({"ZSCHED_QUEUES_EMAIL_MAX_PER_SECOND": "5"}, "is not a setting; [queues.<name>] is allowed only in a file"),
        ({"ZSCHED_URGENCY_ASAP_JITTER": "5"}, "is not a setting; [urgency.<name>] is allowed only in a file"),
        ({"ZSCHED_REDIS_PORT": "6379"}, "ZSCHED_REDIS_PORT in the environment is not a setting"),
        ({"ZSCHED_DAEMON_BATCH_MAX": "many"}, "ZSCHED_DAEMON_BATCH_MAX='many': write a whole number"),
        ({"ZSCHED_DAEMON_LEASE_MS": "900"}, "ZSCHED_DAEMON_LEASE_MS: renew_ms=500 must be less"),  # timing: refused
        ({"ZSCHED_REDIS_URL": "http://h"}, "ZSCHED_REDIS_URL='http://h': not a Redis URL; write redis://host"),
        ({"ZSCHED_REDIS_URL": "redis://h:port"}, "host and port cannot be read"),
        ({"ZSCHED_REDIS_URL": "redis://h/zero"}, "the number of the database"),
        ({"ZSCHED_REDIS_URL": "unix://"}, "the socket's path is missing"),
        ({"ZSCHED_CONFIG": "/nowhere/zsched.toml"}, "configuration file /nowhere/zsched.toml: No such file"),
    ],
)
def test_a_mistake_in_the_environment_is_named(env: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(env=env)

    assert message in str(caught.value)


def test_tables_of_queues_and_urgencies_are_read_by_name(tmp_path: Path) -> None:
    text = """
        [queues.email]
        max_per_second = 100
        [queues."mail:bulk"]
        max_per_second = 0.5
        [queues.free]
        [urgency.digest]
        jitter = 30
        [urgency.slow]
        priority = "low"
        at_front = true
        expires_after = 0.5
    """

    settings = load_settings(write(tmp_path, text), env={})

    assert {"email": {"max_per_second": 100.0}, "mail:bulk": {"max_per_second": 0.5}, "free": {}} == settings.queues
    assert {"email": 100.0, "mail:bulk": 0.5} == settings.runs_per_second
    expected = {"digest": {"jitter": 30.0}, "slow": {"priority": "low", "at_front": True, "expires_after": 0.5}}
    assert expected == settings.urgencies
    presets = merged_presets(settings.urgencies)
    assert {"priority": "low", "expires_after": 24 * 3600, "jitter": 30.0} == presets["digest"]


@pytest.mark.parametrize(
    "name",
    ["a", "mail:bulk", "ü" * 64, "ü" * 65, "x" * 128, "x" * 129, "", "-a", "a b", "a\t", "q:intermediate", "\u200b"],
)
def test_a_table_of_a_queue_may_have_the_names_that_queues_may_have(name: str) -> None:
    def is_good(check: Callable[[object], object]) -> bool:
        try:
            return bool(check(name))
        except (InvalidSchedule, ValueError):
            return False

    assert is_good(check_queue) == is_good(QUEUES.name)


def test_a_mistake_in_a_flag_names_the_flag() -> None:
    with pytest.raises(ConfigError, match=r"^--daemon-idle-ms='soon': write a whole number"):
        load_settings(env={}, flags={"daemon.idle_ms": "soon"})


def test_variables_set_by_kubernetes_are_ignored() -> None:
    link = dict.fromkeys(["ZSCHED_REDIS_PORT", "ZSCHED_REDIS_PORT_6379_TCP"], "tcp://10.0.0.1:6379")
    hosts = dict.fromkeys(["ZSCHED_SERVICE_HOST", "ZSCHED_REDIS_PORT_6379_TCP_ADDR"], "10.0.0.1")

    assert Settings() == load_settings(env=link | hosts | {"ZSCHED_REDIS_SERVICE_PORT": "6379"})


def test_other_variables_of_zsched_are_ignored() -> None:
    package = Path(zsched.__file__).parent
    texts = [file.read_text() for file in package.rglob("*.py")]
    found = {name for text in texts for name in re.findall(r'"(ZSCHED_[A-Z_]+[A-Z])"', text)}
    others = found - {variable_of(key) for key in keys()} - {"ZSCHED_CONFIG"} | {"ZSCHED_BENCH_NODE_MODULES"}

    assert {"ZSCHED_REDIS_SERVER", "ZSCHED_ALIVE_FILE"} <= others
    assert Settings() == load_settings(env={"PATH": "/bin"} | dict.fromkeys(others, "/some/path"))


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [("[::1]:0", "::1", 0), ("localhost:80", "localhost", 80), ("a.b-c.:65535", "a.b-c.", 65535), ("[::]:1", "::", 1)],
)
def test_an_address_to_listen_at_is_host_and_port(listen: str, host: str, port: int) -> None:
    settings = load_settings(env={"ZSCHED_METRICS_LISTEN": listen})

    assert (host, port) == listen_parts(settings.metrics.listen or "")


@pytest.mark.parametrize(
    ("url", "flags", "says"),
    [
        (None, {"redis.url": "redis://:secret@host/0"}, "ZSCHED_REDIS_URL"),
        ("redsi://me:secret@host", {}, r"redsi://me:\*\*\*@host"),
    ],
)
def test_a_password_in_a_flag_or_a_bad_url_is_not_repeated(url: str | None, flags: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        load_settings(env={"ZSCHED_REDIS_URL": url} if url else {}, flags=flags)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["redis://:secret@host", "redis+cluster://me:secret@h1,[::1]:7"])
def test_two_passwords_are_refused(tmp_path: Path, url: str) -> None:
    file = write(tmp_path, '[redis]\npassword_file = "/x"\n')

    with pytest.raises(ConfigError, match=r"ZSCHED_REDIS_URL, .*password_file: two passwords; remove the one"):
        load_settings(file, env={"ZSCHED_REDIS_URL": url})


def test_a_password_file_is_read_without_the_end_of_its_line(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(" with space \n")

    settings = load_settings(env={"ZSCHED_REDIS_PASSWORD_FILE": str(tmp_path / "password")})

    assert settings.redis.read_password() == " with space "
    assert Settings().redis.read_password() is None


@pytest.mark.parametrize(("content", "problem"), [(None, "No such file"), ("\n", "it is empty")])
def test_a_useless_password_file_is_an_error(tmp_path: Path, content: str | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "password").write_text(content)
    settings = load_settings(env={"ZSCHED_REDIS_PASSWORD_FILE": str(tmp_path / "password")})

    with pytest.raises(ConfigError, match=problem):
        settings.redis.read_password()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://me@host", "redis://***@host"),
        ("redis://me:secret@host:6379/0", "redis://me:***@host:6379/0"),
        ("redis://:secret@host", "redis://***@host"),
        ("redis://:se/c#r@et@host/0", "redis://***@host/0"),
        ("unix:///run/r.sock?password=secret&db=0", "unix:///run/r.sock?password=***&db=0"),
        ("unix:///run/r.sock?password=sec&ret&db=0", "unix:///run/r.sock?password=***&db=0"),
        ("redis://host/0?PASSWORD=se@cret", "redis://host/0?PASSWORD=***"),
        ("redis:/:secret@host", "redis:/***@host"),
        (":secret@host", "***@host"),
        ("nothing secret", "nothing secret"),
        ("redis+sentinel://me:secret@h1:1,h2:2/m/0", "redis+sentinel://me:***@h1:1,h2:2/m/0"),
        ("rediss+sentinel://h1,h2/m?sentinel_password=s&db=1", "rediss+sentinel://h1,h2/m?sentinel_password=***&db=1"),
        ("rediss://host:1/0?ssl_password=of@key", "rediss://host:1/0?ssl_password=***"),
        ("redis://me:secret", "redis://me:***"),  # the host was forgotten
        ("redis://:sec/ret", "redis://:***"),
        ("rediss+sentinel://h1:1,h2:2/m/0", "rediss+sentinel://h1:1,h2:2/m/0"),
    ],
)
def test_a_url_is_printed_without_passwords(url: str, shown: str) -> None:
    assert shown == redact(url)


def test_a_daemon_listens_nowhere_by_default_and_the_api_on_loopback() -> None:
    assert (None, "127.0.0.1:9180") == (Settings().metrics.listen, Settings().web.listen)


@pytest.mark.parametrize("addresses", ["10.0.0.5", "10.0.0.0/24,::1", ""])
def test_addresses_of_proxies_are_addresses_or_networks(addresses: str) -> None:
    given = tuple(addresses.split(",")) if addresses else ()

    assert given == load_settings(env={"ZSCHED_WEB_PROXY_ADDRESSES": addresses}).web.proxy_addresses


LISTEN = ("METRICS_LISTEN", r": write host:port, 127\.0\.0\.1:8080 or \[::1\]")
PROXIES = ("WEB_PROXY_ADDRESSES", r" write 10\.0\.0\.5 or 10\.0\.0\.0/24")
NO_ADDRESS = ["", "host", ":9464", "*:80", "a..b:80", ".a:80", f"{'x' * 64}:80", "localhost:99999", "localhost:-1"]


@pytest.mark.parametrize(
    ("name", "remedy", "address"),
    [
        *((*LISTEN, address) for address in (*NO_ADDRESS, "::1:80")),
        *((*PROXIES, address) for address in ("proxy.example.org", "10.0.0.5/24", "*", "10.0.0")),
    ],
)
def test_an_invalid_address_is_refused_with_the_form_to_write(name: str, remedy: str, address: str) -> None:
    with pytest.raises(ConfigError, match=f"^ZSCHED_{name}=.+{remedy}"):
        load_settings(env={f"ZSCHED_{name}": address})


PATHS = [key for key, parse in _PARSERS.items() if parse is path]
ODD_PATHS = [
    "/a.db",
    "a.db",
    "./~/a.db",
    "/~/a.db",
    "a~",
    "a b",
    "$HOME/a",
    "é",
    "-",
    "--help",
    "a/../b",
    " ",
    "C:\\a",
    "*",
    "%h/a",
]


def test_the_settings_have_paths() -> None:
    assert {("archive", "path"), ("redis", "password_file"), ("signing", "keys_file")} <= set(PATHS)


@pytest.mark.parametrize("key", PATHS, ids=".".join)
def test_a_path_may_begin_with_the_home_of_its_user(
    tmp_path: Path, key: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    sentinels = "sentinels = ['a:1']\nmaster = 'm'\n" if "sentinel" in key[1] else ""
    for given, meant in [("~/a.db", "/home/ann/a.db"), ("~", "/home/ann"), *((one, one) for one in ODD_PATHS)]:
        by_file = load_settings(write(tmp_path, f"[{key[0]}]\n{key[1]} = {json.dumps(given)}\n{sentinels}"), env={})
        names = {variable_of(key): given} | (
            {"ZSCHED_REDIS_SENTINELS": "a:1", "ZSCHED_REDIS_MASTER": "m"} if sentinels else {}
        )
        for settings in (by_file, load_settings(env=names)):
            assert meant == getattr(getattr(settings, key[0]), key[1])


@pytest.mark.parametrize("key", PATHS, ids=".".join)
@pytest.mark.parametrize(
    "value", ["", "a\0b", 5, True, [], {}, 1.5, "~nobody_of_this_name/a.db", "~nobody_of_this_name"]
)
def test_a_value_that_is_not_a_path_is_refused_with_its_key(
    tmp_path: Path, key: tuple[str, str], value: object
) -> None:
    with pytest.raises(ConfigError, match=rf"{key[1]}=.*: .*write the (whole )?path"):
        load_settings(write(tmp_path, f"[{key[0]}]\n{key[1]} = {json.dumps(value).replace('{}', '{a = 1}')}\n"), env={})


def test_a_configuration_file_a_password_file_and_a_key_file_may_be_below_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file, password, keys = (tmp_path / name for name in ("z.toml", "password", "keys"))
    file.write_text('namespace = "mail"\n')
    password.write_text("secret\n")
    keys.touch(0o600)
    keys.write_text(new_key_line("a"))

    assert (
        "mail"
        == load_settings("~/z.toml", env={}).namespace
        == load_settings(env={"ZSCHED_CONFIG": "~/z.toml"}).namespace
    )
    assert "secret" == read_password_file("~/password", "here")
    assert "a" == KeyFile("~/keys").current().first.id
    with pytest.raises(ConfigError, match=r"~nobody_of_this_name/z\.toml: No such file"):
        load_settings("~nobody_of_this_name/z.toml", env={})
