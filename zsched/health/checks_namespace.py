"""Checks of the namespace's keys: has each its type and valid values, and is each still in use?"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, get_args

from zsched.core.entry import is_known, text
from zsched.core.options.choices import Priority
from zsched.core.wording import plural, some
from zsched.errors import Garbled, RedisRefused
from zsched.health.checks_daemons import in_quarantine, wrong_type
from zsched.health.facts import Finding, Probe, fine, health_check, problem, skipped, warning
from zsched.storage.jobs import members
from zsched.storage.meta import NUMBERS, number, throttled_sets
from zsched.storage.rqkeys import Registry
from zsched.storage.scripts import unknown_format

_QUEUES: Final = 500  # of RQ, checked at most
_SCHEDULES: Final = 500  # recurring ones, checked at most
_LOOKED_AT: Final = 5  # schedules in quarantine, shown with their reasons


# -- types ------------------------------------------------------------------------------------------


@health_check("wrong_type", Probe, "key types")
def check_all_types(probe: Probe) -> Iterator[Finding]:
    """
    Check the types of the namespace's single keys, of the keys of some of its schedules, and of RQ's keys that scripts
    use. A key of a wrong type stops the scripts that need it.
    """
    wanted = probe.keys.types() | dict(chain(_throttled(probe), _schedules(probe), _rqs(probe)))
    replies = probe.wire.replies(("TYPE", key) for key in wanted)
    found = {key: type.decode() for key, type in zip(wanted, replies, strict=True) if isinstance(type, bytes)}
    wrong = {key: type for key, type in found.items() if type not in (wanted[key], "none")}
    for key, type in wrong.items():
        effect = "firing continues without it" if key == probe.keys.rq.queues() else "what needs it is refused"
        yield wrong_type(probe.keys, key, type, wanted[key], effect)
    if denied := [key for key in wanted if key not in found]:
        yield skipped(f"this user may not ask for the type of {some(denied)}", "ask as a user who may")
    if found and not wrong:
        yield fine(f"{plural(len(found), 'key')} checked: each has its type, or is missing")


def _throttled(probe: Probe) -> Iterator[tuple[str, str]]:
    if _is_readable(probe, "HGET", probe.keys.meta(), "throttled"):
        yield from ((throttled.key(probe.keys), "zset") for throttled in throttled_sets(probe.wire, probe.keys))


def _schedules(probe: Probe) -> Iterator[tuple[str, str]]:
    keys = probe.keys
    if not _is_readable(probe, "SCARD", keys.recurring()):
        return
    for id in members(probe.wire, keys.recurring(), _SCHEDULES):
        yield keys.schedule(id), "hash"
        yield keys.template(id), "hash"
        yield keys.waiting(id), "list"


def _rqs(probe: Probe) -> Iterator[tuple[str, str]]:
    rq = probe.keys.rq
    yield rq.queues(), "set"
    yield rq.workers(), "set"
    if not _is_readable(probe, "SCARD", rq.queues()):
        return
    for queue in probe.queues()[:_QUEUES]:
        yield rq.queue(queue), "list"
        yield from ((rq.registry(registry, queue), "zset") for registry in get_args(Registry))


def _is_readable(probe: Probe, *command: str) -> bool:
    """Return True if *command* succeeds. Else its key has a wrong type or is forbidden; other findings report both."""
    [reply] = probe.wire.replies([command])
    return not isinstance(reply, RedisRefused)


# -- meta, quarantine -------------------------------------------------------------------------------


@health_check("meta", Probe)
def check_meta(probe: Probe) -> Iterator[Finding]:
    """Check the numbers in meta that scripts read. Another check has those of test clocks."""
    key, garbled = probe.keys.meta(), False
    for name, value in zip(NUMBERS, probe.ask("HMGET", key, *NUMBERS), strict=True):
        try:
            number(probe.keys, name, value)
        except Garbled as error:
            garbled = True
            yield problem(error.problem, error.remedy)
    if not garbled:
        yield fine(f"{key} has numbers where they have to be")


@health_check("format", Probe)
def check_format(probe: Probe) -> Finding:
    """Check the namespace's format: scripts refuse a format that their version does not know."""
    if (value := probe.ask("HGET", probe.keys.meta(), "format")) is None:
        return fine("no format yet: no daemon has led here")
    elif is_known(format := number(probe.keys, "format", value)):
        return fine(f"format {format}, which this zsched knows")
    what, _, remedy = str(unknown_format(probe.keys, format)).partition(": ")
    return problem(f"{what}: every call is refused", remedy)


@health_check("quarantined", Probe, "quarantine")
def check_quarantine_closely(probe: Probe) -> Finding:
    """Report schedules in quarantine, some of them with the reason."""
    key = probe.keys.quarantine()
    number, names = probe.ask("HLEN", key), ""
    if number:
        _, flat = probe.ask("HSCAN", key, 0, "COUNT", _LOOKED_AT)
        rows = sorted(zip(flat[::2], flat[1::2], strict=True))
        names = some([f"{text(id)} ({text(value).split(' ', 3)[-1]})" for id, value in rows])
    return in_quarantine(number, names)


# -- leftovers --------------------------------------------------------------------------------------

_STEPS: Final = 50
_PER_STEP: Final = 1000  # keys per step of the scan: about 0.3 ms of Redis
_AT_ONCE: Final = 20  # keys in one command of a remedy
_LASTS: Final = -1  # PTTL of a key without expiry
_KINDS: Final = {  # of unused keys: the remedy, and a command
    "of a missing recurring schedule": ("zsched why ID shows what it was; then", "UNLINK"),
    "of an expired call": ("", "UNLINK"),
    "of held-back schedules that no fire reads": ("put again what is in it", "ZRANGE"),
    "of waiting runs that no leader reads": ("put its schedule again, with overlap=queue; in it is", "LRANGE"),
    "that zsched does not know": ("let only zsched write under zsched:", ""),
}


@health_check("leftovers", Probe)
def check_leftovers(probe: Probe) -> Iterator[Finding]:
    """
    Report keys of the namespace that nothing uses any more, by kind.

    The scan over the database is bounded: it sees all keys of a database of up to 50,000, and a part of a larger one. A
    key that a script removes between the scan and the second look is not a leftover.
    """
    found, cursor, steps = {kind: set[str]() for kind in _KINDS}, b"", 0
    while cursor != b"0" and steps < _STEPS:
        cursor, page = probe.ask("SCAN", cursor or 0, "MATCH", f"{probe.keys.prefix}*", "COUNT", _PER_STEP)
        steps += 1
        kinds = _sorted(probe, [text(key).removeprefix(probe.keys.prefix) for key in page])
        for names, more in zip(found.values(), kinds, strict=True):
            names.update(more)
    for kind, names in found.items():
        if names:
            remedy, command = _KINDS[kind]
            said = f"{plural(len(names), 'key')} {kind}: {some(sorted(names))}"
            yield warning(said, remedy, *_by_key(probe, command, names))
    if not any(found.values()):
        yield fine("none" if cursor == b"0" else f"none among {_STEPS * _PER_STEP:,} keys of this database")


def _by_key(probe: Probe, command: str, names: set[str]) -> tuple[object, ...]:
    """Return *command* on the keys *names*: UNLINK on the first of many, others on the first one."""
    keys = [probe.keys.prefix + name for name in sorted(names)]
    if command in ("ZRANGE", "LRANGE"):
        return "redis-cli", command, keys[0], 0, -1
    return ("redis-cli", command, *keys[:_AT_ONCE]) if command else ()


def _sorted(probe: Probe, names: list[str]) -> Iterator[Iterable[str]]:
    """Yield the leftovers among *names*, without the namespace's prefix, by kind."""
    keys = probe.keys
    of_ids = [name for name in names if name.startswith(("schedule:", "template:"))]
    waiting = [name for name in names if name.startswith("waiting:")]
    lapsing = [name for name in names if (keys.prefix + name).startswith(keys.lapsing_prefixes())]
    throttled_names = [name for name in names if _is_throttled(name)]
    lives = probe.ask_all(("PTTL", keys.prefix + name) for name in lapsing)
    [words] = probe.ask_all([("HGET", keys.meta(), "throttled")])
    named = text(words or b"").split()
    yield _unknown(probe, of_ids, "SISMEMBER", keys.recurring())
    yield (name for name, ms in zip(lapsing, lives, strict=True) if ms == _LASTS)
    yield (name for name in throttled_names if name.removeprefix("due:") not in named)
    yield _unknown(probe, waiting, "HEXISTS", keys.chains())
    whole = {key.removeprefix(keys.prefix) for key in keys.types()}
    yield set(names) - {*of_ids, *waiting, *lapsing, *throttled_names} - whole


def _unknown(probe: Probe, names: list[str], command: str, place: str) -> list[str]:
    """Return the keys among *names* whose ids are not at *place*, as *command* says, if they are still there."""
    are_known = probe.ask_all((command, place, name.partition(":")[2]) for name in names)
    suspects = [name for name, is_known in zip(names, are_known, strict=True) if is_known == 0]
    still = probe.ask_all(("EXISTS", probe.keys.prefix + name) for name in suspects)
    return [name for name, exists in zip(suspects, still, strict=True) if exists]


def _is_throttled(name: str) -> bool:
    """Return True for ``due:<lane>:<queue>``; the name of a queue may have colons."""
    word, _, rest = name.partition(":")
    lane, _, queue = rest.partition(":")
    return word == "due" and bool(queue) and lane in {each.value for each in Priority}
