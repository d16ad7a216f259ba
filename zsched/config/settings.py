"""
Settings: defaults < TOML file < environment < flags.

Every key, its default and its bounds are in the dataclasses below and nowhere else. ``config/zsched.toml`` repeats them
for people, and a test compares the two. A key ``[redis] url`` is ``ZSCHED_REDIS_URL`` in the environment and
``--redis-url`` as a flag; ``namespace`` is above the sections. User-named tables (``config.parsing``) are allowed only
in a file. Files are not searched: a file is read only if ``-c`` or ``ZSCHED_CONFIG`` names it. An unknown
key or a bad value is a ConfigError with its place and the remedy. Values are shown redacted.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from zsched.config import parsing as parse
from zsched.config import reading, urls
from zsched.config.bounds import MOST_VALID_DAYS, RQ_PREFIX_FORM, RQ_PREFIX_REMEDY, VALID_DAYS
from zsched.config.parsing import NOTIFY, QUEUES, URGENCY, RawValue, setting, suggest
from zsched.errors import ConfigError

FILE_VARIABLE = "ZSCHED_CONFIG"
LONGEST_LEASE_MS = 60_000  # also the longest hold; the same number is in lua/lib/time.lua
_HEADER = r"[A-Za-z0-9-]{1,64}"
_HEADER_REMEDY = "write the name of a header, such as X-Forwarded-User"
_PREFIX = "ZSCHED_"
_NO_HOST = "redis:///0"  # `url` of Sentinels or a Cluster, if it is not given
# Variables that are not settings: ours, and those that Kubernetes sets for every service of a namespace; one named
# "zsched-redis" must not stop the daemon.
_OTHER_VARIABLES = re.compile(
    r"ZSCHED_((CONFIG|ALIVE_FILE|REDIS_SERVER|BENCH_NODE_MODULES)=|TEST_)"
    r"|\w+(_SERVICE_HOST=|_SERVICE_PORT(_\w+)?=|_PORT(_\d+_[A-Z]+)?=[a-z]+://|_PORT_\d+_[A-Z]+_[A-Z]+=)"
)


def _queues(given: object) -> bool | tuple[str, ...]:
    """Parse true (all queues), false (none), or names of queues."""
    for kind in (parse.boolean, parse.words):
        with suppress(ValueError):
            return kind(given)
    raise ValueError('write true, false, or a list of queues: ["a", "b"] in a file, a,b elsewhere')


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """
    The connection to Redis. ``timeout_s`` holds for connecting and for each reply.

    ``load_settings`` makes one URL of ``url``, ``sentinels``, ``master``, ``sentinel_password_file`` and ``cluster``.
    So a connection needs only ``url`` and the password. ``given_by`` names the place of the URL for messages: a file, a
    variable, an option; "" if no settings were loaded.
    """

    url: str = setting("redis://localhost:6379/0", urls.check_url, repr=False)  # may have a password
    timeout_s: float = setting(5.0, parse.number_within(0.05, 300))
    password_file: str | None = setting(None, parse.path)
    sentinels: tuple[str, ...] = setting((), parse.addresses(urls.address))
    master: str | None = setting(None, parse.matching(urls.MASTER, "write the master's name, as Sentinel knows it"))
    sentinel_password_file: str | None = setting(None, parse.path)
    cluster: tuple[str, ...] = setting((), parse.addresses(urls.cluster_node))
    given_by: str = field(default="", compare=False)  # no setting

    def read_password(self) -> str | None:
        """
        Read ``password_file``, without its line end; None if no file is configured.

        Raises:
            ConfigError: the file cannot be read or is empty.
        """
        file = self.password_file
        return None if file is None else reading.read_password_file(file, "[redis] password_file")


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """The daemon's times and sizes; config/zsched.toml explains each key."""

    lease_ms: int = setting(2000, parse.integer(200, LONGEST_LEASE_MS))
    renew_ms: int = setting(500, parse.integer(20, 30_000))
    idle_ms: int = setting(1000, parse.integer(10, 60_000))
    batch_max: int = setting(1000, parse.integer(1, 5000))  # Lua's unpack fails near 8,000
    script_target_ms: float = setting(3.0, parse.number_within(0.1, 1000))
    allow_eviction: bool = setting(False, parse.boolean)
    overlap_patience_s: int = setting(3600, parse.integer(1, 30 * 86_400))


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """The durable copy of the log, and how much of the log stays in Redis."""

    path: str | None = setting(None, parse.path)
    retention_days: int = setting(90, parse.integer(1, 36_500))
    keep_args: bool = setting(True, parse.boolean)
    recovery: str = setting("automatic", parse.one_of("automatic", "manual"))
    log_keep_s: int = setting(3600, parse.integer(1, 30 * 86_400))
    log_keep_mib: int = setting(256, parse.integer(1, 1024 * 1024))


@dataclass(frozen=True, slots=True)
class RqSettings:
    """Options of RQ's jobs."""

    serializer: str = setting("pickle", parse.one_of("pickle", "json"))
    allow_callables: tuple[str, ...] = setting(("*",), parse.words)
    native: bool | tuple[str, ...] = setting(True, _queues)
    tracebacks: bool = setting(True, parse.boolean)
    prefix: str | None = setting(None, parse.matching(RQ_PREFIX_FORM, RQ_PREFIX_REMEDY))


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """
    The guard of workers of ``zsched.rq``. ``guard``: off, warn (run, and tell what enforce would refuse) or enforce.
    ``task_modules`` are imported at a worker's start: their tasks are allowed.
    """

    guard: str = setting("off", parse.one_of("off", "warn", "enforce"))
    allow_callables: tuple[str, ...] = setting((), parse.any_words)
    task_modules: tuple[str, ...] = setting((), parse.any_words)
    unsigned_rq_jobs: bool = setting(False, parse.boolean)


@dataclass(frozen=True, slots=True)
class SigningSettings:
    """The keys of clients and workers. ``valid_days``: after a one-shot's time, or a recurring schedule's put."""

    keys_file: str | None = setting(None, parse.path)
    valid_days: int = setting(VALID_DAYS, parse.integer(1, MOST_VALID_DAYS))


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Sizes that a schedule must not exceed."""

    payload_bytes: int = setting(262_144, parse.integer(1, 64 * 1024 * 1024))


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Options of the events that structlog writes to stderr."""

    level: str = setting("info", parse.one_of("debug", "info", "warning", "error"))
    format: str = setting("auto", parse.one_of("auto", "console", "json"))


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The address at which the daemon serves metrics to Prometheus; None: nowhere, and nothing is counted."""

    listen: str | None = setting(None, parse.listen_address)


@dataclass(frozen=True, slots=True)
class WebSettings:
    """
    The address of ``zsched web``, and its callers. ``allow_plain``: also an address that is not of loopback, without
    TLS. ``timeout_s``: for a header, for a body, and for a client that reads nothing. ``least_every_s``: between two
    times of a rule of a limited caller. ``proxy_header`` and ``proxy_role_header`` count only from ``proxy_addresses``.
    ``accounts_file``: by default as ``web.accounts_file`` says.
    """

    listen: str = setting("127.0.0.1:9180", parse.listen_address)
    allow_plain: bool = setting(False, parse.boolean)
    timeout_s: float = setting(30.0, parse.number_within(0.1, 3600))
    accounts_file: str | None = setting(None, parse.path)
    session_hours: int = setting(12, parse.integer(1, 720))
    least_every_s: float = setting(1.0, parse.number_within(0, 86_400))
    proxy_header: str | None = setting(None, parse.matching(_HEADER, _HEADER_REMEDY))
    proxy_role_header: str | None = setting(None, parse.matching(_HEADER, _HEADER_REMEDY))
    proxy_addresses: tuple[str, ...] = setting((), parse.addresses(parse.network))


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. ``Settings()`` is the defaults; :func:`load_settings` is what programs use."""

    namespace: str = setting("default", parse.matching(r"[a-z0-9_]{1,32}", "use 1 to 32 of a-z, 0-9 and _"))
    by: str | None = setting(None, parse.line(200))
    redis: RedisSettings = field(default_factory=RedisSettings)
    daemon: DaemonSettings = field(default_factory=DaemonSettings)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    rq: RqSettings = field(default_factory=RqSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    signing: SigningSettings = field(default_factory=SigningSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    log: LogSettings = field(default_factory=LogSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    web: WebSettings = field(default_factory=WebSettings)
    queues: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    urgencies: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    notify: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)  # URLs may be secrets

    @property
    def client_options(self) -> dict[str, Any]:
        """Return the options of a client."""
        return {
            "serializer": self.rq.serializer,
            "rq_prefix": self.rq.prefix,
            "payload_limit": self.limits.payload_bytes,
            "urgencies": self.urgencies,
            "signing_keys_file": self.signing.keys_file,
            "signing_valid_days": self.signing.valid_days,
        }

    @property
    def runs_per_second(self) -> dict[str, float]:
        """Return the limits by queue; queues without a limit are left out."""
        return {name: keys["max_per_second"] for name, keys in self.queues.items() if keys}


SettingKey = tuple[str, str]  # (section, name); the section of a top-level key is ""


def load_settings(
    file: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    """
    Load the settings; read only *file* (or the file that ZSCHED_CONFIG in *env* names). If no password of Redis is
    given, ``password_file`` is systemd's credential with that name, if there is one; likewise the file of signing keys.

    *flags* maps ``"namespace"`` or ``"section.name"`` to a value; None means that it was not given.

    Raises:
        ConfigError: a file that cannot be read, an unknown key, a value out of bounds.
    """
    file = os.path.expanduser(file or env.get(FILE_VARIABLE) or "")
    read = _read(Path(file)) if file else {}
    given = dict(chain(_from_file(Path(file), read), _from_environment(env), _from_flags(flags or {})))
    values: dict[str, dict[str, Any]] = {section: {} for section in ("", *_SECTIONS)}
    for (section, name), each in given.items():
        values[section][name] = each.parsed(_PARSERS[section, name])
    sections = {section: kind(**values[section]) for section, kind in _SECTIONS.items()}
    for name, tables in _TABLES.items():
        sections[name] = tables.read(Path(file), read.get(tables.heading, {}))
    settings = Settings(**values[""], **sections)
    _check_together(settings, given)
    keys_file = settings.signing.keys_file or reading.credential_file(env, reading.SIGNING_CREDENTIAL)
    return replace(
        settings, redis=_connection(settings.redis, given, env), signing=replace(settings.signing, keys_file=keys_file)
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        return reading.read_toml(reading.read_file(file).decode())
    except (OSError, ValueError) as error:
        raise ConfigError(f"configuration file {file}: {reading.reason_of(error)}") from error


def _from_file(file: Path, tables: Mapping[str, Any]) -> Iterator[tuple[SettingKey, RawValue]]:
    for name, value in tables.items():
        if name in _NAMED:
            continue
        if name in _SECTIONS and not isinstance(value, dict):
            raise ConfigError(f"{file}: {name} is a section: write [{name}] and its keys below")
        if name in _SECTIONS:
            for inner, inner_value in value.items():
                place = f"{file}: [{name}] {inner}"
                yield _known((name, inner), place), RawValue(place, inner_value)
        elif isinstance(value, dict):
            raise ConfigError(f"{file}: [{name}] is not a section; {suggest(name, [*_SECTIONS, *_NAMED])}")
        else:
            yield _known(("", name), f"{file}: {name}"), RawValue(f"{file}: {name}", value)


def _from_environment(env: Mapping[str, str]) -> Iterator[tuple[SettingKey, RawValue]]:
    names = {variable_of(key): key for key in _PARSERS}
    for variable, value in env.items():
        if variable in names:
            yield names[variable], RawValue(variable, value)
        elif variable.startswith(_PREFIX) and not _OTHER_VARIABLES.match(f"{variable}={value}"):
            heading = next((each for each in _NAMED if variable.startswith(f"{variable_of((each, ''))}_")), None)
            hint = f"[{heading}.<name>] is allowed only in a file" if heading else suggest(variable, names)
            raise ConfigError(f"{variable} in the environment is not a setting; {hint}")


def _from_flags(flags: Mapping[str, object]) -> Iterator[tuple[SettingKey, RawValue]]:
    for dotted, value in flags.items():
        if value is None:
            continue
        section, _, name = dotted.rpartition(".")
        flag = RawValue("--" + dotted.replace(".", "-").replace("_", "-"), value)
        key = _known((section, name), flag.place)
        if key == ("redis", "url") and urls.has_password(str(value)):
            remedy = f"put it in {variable_of(key)} or name a file in {variable_of(('redis', 'password_file'))}"
            raise flag.error(f"every user of this machine can read a password on the command line; {remedy}")
        yield key, flag


def _known(key: SettingKey, place: str) -> SettingKey:
    if key in _PARSERS:
        return key
    elsewhere = next((section for section, name in _PARSERS if name == key[1]), None)
    if elsewhere is not None:
        home = f"in section [{elsewhere}]" if elsewhere else "above the first section"
        raise ConfigError(f"{place} is not a setting; it belongs {home}")
    names = [name for section, name in _PARSERS if section == key[0]] + ([] if key[0] else list(_SECTIONS))
    raise ConfigError(f"{place} is not a setting; {suggest(key[1], names)}")


def _check_together(settings: Settings, given: Mapping[SettingKey, RawValue]) -> None:
    """Check rules between two keys. The message names the places of the given keys."""
    daemon, redis = settings.daemon, settings.redis
    if daemon.renew_ms * 2 >= daemon.lease_ms:
        places = _places(given, "daemon", "renew_ms", "lease_ms")
        raise ConfigError(
            f"{places}: renew_ms={daemon.renew_ms} must be less than half of lease_ms={daemon.lease_ms}, "
            f"so that one late renewal does not end a term; lower renew_ms or raise lease_ms"
        )
    if redis.password_file is not None and urls.gives_password(urls.of_the_server(redis.url)):
        raise _conflict(given, "two passwords; remove the one in the URL", "url", "password_file")


def _connection(redis: RedisSettings, given: Mapping[SettingKey, RawValue], env: Mapping[str, str]) -> RedisSettings:
    """Return *redis* with one URL of all its settings, and with systemd's credential unless it has a password."""
    url, file = _joined_url(redis, given), redis.password_file
    if file is None and not urls.gives_password(urls.of_the_server(url)):
        file = reading.credential_file(env, reading.REDIS_CREDENTIAL)
    given_by = _places(given, "redis", "url", "sentinels", "master", "cluster")
    default = f"the default, as {variable_of(('redis', 'url'))} is not set"
    return replace(redis, url=url, password_file=file, given_by=given_by or default)


def _joined_url(redis: RedisSettings, given: Mapping[SettingKey, RawValue]) -> str:
    """Return the URL with the Sentinels or the nodes of the Cluster in it."""
    url, base = redis.url, redis.url if ("redis", "url") in given else _NO_HOST
    if bool(redis.sentinels) != (redis.master is not None):
        problem = "one without the other; give the Sentinels and the name of their master"
        raise _conflict(given, problem, "sentinels", "master")
    if redis.sentinels and redis.cluster:
        raise _conflict(given, "a Cluster has no Sentinels; remove one of the two", "sentinels", "cluster")
    try:
        if redis.master is not None:
            url = urls.join(base, redis.sentinels, redis.master)
        elif redis.cluster:
            url = urls.join_cluster(base, redis.cluster)
    except ValueError as error:
        raise _conflict(given, str(error), "url", "sentinels", "master", "cluster") from None
    if redis.sentinel_password_file is None:
        return url
    if not urls.is_sentinel_url(url):
        problem = "no Sentinels are named; give sentinels and master, or remove it"
        raise _conflict(given, problem, "url", "sentinel_password_file")
    if {"sentinel_password", "sentinel_password_file"} & urls.SentinelUrl.parse(url).options.keys():
        problem = "two passwords of the Sentinels; remove the one in the URL"
        raise _conflict(given, problem, "url", "sentinel_password_file")
    return urls.with_password_file(url, redis.sentinel_password_file)


def _conflict(given: Mapping[SettingKey, RawValue], problem: str, *names: str) -> ConfigError:
    """Return the error for the keys *names* of [redis], whose values do not go together."""
    return ConfigError(f"{_places(given, 'redis', *names)}: {problem}")


def _places(given: Mapping[SettingKey, RawValue], section: str, *names: str) -> str:
    """Name the places of the keys *names* of *section* that were given."""
    return ", ".join(given[section, name].place for name in names if (section, name) in given)


def variable_of(key: SettingKey) -> str:
    """Return the environment variable of a key: ``("redis", "url")`` is ZSCHED_REDIS_URL."""
    return _PREFIX + "_".join(part for part in key if part).upper()


_TABLES = {"queues": QUEUES, "urgencies": URGENCY, "notify": NOTIFY}  # by field: the tables whose names users choose
_NAMED = tuple(tables.heading for tables in _TABLES.values())
_SECTIONS: dict[str, Any] = {
    each.name: each.default_factory for each in fields(Settings) if is_dataclass(each.default_factory)
}
_PARSERS = {
    (section, each.name): each.metadata["parse"]
    for section, kind in {"": Settings, **_SECTIONS}.items()
    for each in fields(kind)
    if "parse" in each.metadata
}
