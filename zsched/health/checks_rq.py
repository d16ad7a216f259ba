"""
Checks of RQ: its workers, their serializer and the prefix of their keys, other schedulers in the same queues, and the
guards of workers: which say that they run only signed jobs, and which schedules they will refuse.

A worker's mode is a field in RQ's keys, so every writer of these can give it to every worker.

Another running scheduler is a warning. If it has jobs that are scheduled here, too, it is a problem: they run twice.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from zsched.core.entry import text
from zsched.core.options.choices import Priority
from zsched.core.pages import grouped
from zsched.core.runs.job import SIGNATURE_FIELD, parts_of
from zsched.core.toml import toml_text
from zsched.core.wording import plural, rough_duration, some
from zsched.errors import RedisRefused
from zsched.health.checks_daemons import worker_of
from zsched.health.facts import Finding, Probe, fine, health_check, note, problem, skipped, warning
from zsched.storage.jobs import is_denied, members
from zsched.storage.queues import StalledQueues, used_queues
from zsched.storage.rivals import CRON_OWNER, RqSchedulers, crons, rq_schedulers
from zsched.storage.rqkeys import RQ_PREFIX, RQ_PREFIX_VARIABLE, RQ_SCHEDULER_JOBS, RqKeys, prefix_of_environment
from zsched.storage.rqversion import BEFORE, HAS_PREFIX, HERE, OLDEST, release
from zsched.storage.workers import WorkerSeen, workers_of


@health_check("workers", Probe)
def check_workers(probe: Probe) -> Iterator[Finding]:
    """Check the RQ versions of the workers. Jobs are written as the RQ of this machine does."""
    workers = workers_of(probe.wire, probe.keys.rq)
    versions = grouped((worker.version, worker.name) for worker in workers)
    unknown = {found: names for found, names in versions.items() if not OLDEST <= release(found) < BEFORE}
    for found, names in sorted(unknown.items()):
        said = f"{plural(len(names), 'worker')} of RQ {found} ({some(sorted(names))}), which zsched does not support"
        yield problem(said, "install RQ 2.8 to 3.x there")
    if shared := _shared_by_2_and_3(workers):
        yield problem(
            f"workers of RQ 2 and of RQ 3 take from {some(sorted(shared))}: one of RQ 2 records a run as failed when "
            "RQ 3 made a run that depends on it ready",
            "upgrade all workers of a queue to RQ 3",
        )
    elif len(versions) > 1:
        listed = ", ".join(f"{found} ({len(names)})" for found, names in sorted(versions.items()))
        yield warning(f"workers are of different versions of RQ: {listed}", "upgrade all of them")
    if not workers:
        yield _unregistered(probe.stalled_queues)
    elif not unknown and len(versions) == 1:
        yield fine(f"{plural(len(workers), 'worker')} of RQ {workers[0].version}; this machine has {HERE}")


def _unregistered(queues: StalledQueues) -> Finding:
    """Return the finding of no registered worker. Workers that still take jobs began before a loss of Redis."""
    if queues.heard:
        said = "no RQ worker is registered, and workers take jobs: they began before Redis lost its data"
        return note(said, "restart them: then RQ and zsched see them, also while they wait")
    worker = worker_of([one.queue for one in queues.unheard])
    if queues.is_after_loss:
        said = "no RQ worker is registered: fired runs stay queued, unless workers ran when Redis lost its data"
        return warning(said, "restart those workers, or start one", *worker)
    return warning("no RQ worker is registered: fired runs stay in their queues", "start one", *worker)


@health_check("serializer", Probe)
def check_serializer(probe: Probe) -> Finding:
    """Check the serializer of payloads. RQ's workers do not report theirs."""
    stored, configured = text(probe.ask("HGET", probe.keys.meta(), "serializer") or b""), probe.settings.rq.serializer
    if not stored:
        return fine(f"nothing was scheduled yet; clients with these settings write {configured}")
    elif stored != configured:
        said = f"the namespace's payloads are {stored}, and these settings say {configured}: such clients are refused"
        return problem(said, f"set [rq] serializer = {toml_text(stored)}, or take another namespace")
    elif configured == "json":
        said = "payloads are json, and RQ's workers do not report whether they read json"
        return skipped(said, "see that each is started as", *("rq", "worker", "QUEUE"))
    return fine("payloads are pickle, which RQ's workers read by default")


@health_check("prefix", Probe)
def check_prefix(probe: Probe) -> Iterator[Finding]:
    """Compare the prefix of RQ's keys in the namespace, in these settings and of the workers."""
    stored, ours = text(probe.ask("HGET", probe.keys.meta(), "rq_prefix") or b""), probe.keys.rq.prefix
    if stored and stored != ours:
        yield problem(
            f"the namespace keeps its runs under RQ's prefix {stored!r}, and these settings say {ours!r}: daemons and "
            "clients with them are refused",
            f"set [rq] prefix = {toml_text(stored)}, or give another namespace",
        )
        return
    theirs = prefix_of_environment() if HAS_PREFIX else RQ_PREFIX  # of RQ's own commands in this environment
    if theirs != ours:
        said = f"{RQ_PREFIX_VARIABLE} of this environment makes RQ's prefix {theirs!r}, and [rq] prefix is {ours!r}"
        yield warning(said, f"set {RQ_PREFIX_VARIABLE}={ours} for services, workers and rq's commands")
    others = [] if _has_workers(probe, ours) else sorted({RQ_PREFIX, theirs} - {ours})
    if elsewhere := [other for other in others if _has_workers(probe, other)]:
        worker = worker_of(sorted(used_queues(probe.wire, probe.keys)))
        yield problem(
            f"workers take jobs under RQ's prefix {elsewhere[0]!r}, none under {ours!r}: fired runs stay queued",
            "start workers under the prefix of the namespace",
            *worker,
        )
    elif theirs == ours:
        yield fine(f"RQ's keys begin with {ours}:")


def _has_workers(probe: Probe, prefix: str) -> bool:
    """Return True if workers are found under *prefix*; False also if this user may not look."""
    try:
        return bool(workers_of(probe.wire, RqKeys(prefix)))
    except RedisRefused as error:
        if is_denied(error) or probe.server.is_in_cluster:  # keys under another prefix are in other slots
            return False
        raise


def _shared_by_2_and_3(workers: Sequence[WorkerSeen]) -> set[str]:
    """Return the queues that both versions serve: RQ 2.12 does not know the status ``ready_to_enqueue`` (measured)."""
    older, newer = set[str](), set[str]()
    for worker in workers:
        (older if release(worker.version) < (3,) else newer).update(worker.queues)
    return older & newer


# -- other schedulers ---------------------------------------------------------------------------------
_QUEUES: Final = 2000  # checked for locks at most
_JOBS: Final = 500  # jobs of rq-scheduler, and recurring schedules here, that are compared at most
_STEPS: Final = 50  # of a scan: enough for a database of 50,000 keys


@health_check("rq_scheduler_locks", Probe, "rq's scheduler")
def check_rq_scheduler_locks(probe: Probe) -> Iterator[Finding]:
    """Report owners of RQ's scheduler locks: a worker --with-scheduler holds the locks of its queues."""
    ours, native = f"zsched:{probe.keys.namespace}", probe.settings.rq.native
    if native is False:
        yield fine("[rq] native is false: RQ's own delayed jobs are left to RQ's schedulers")
        return
    queues = (_queues(probe) if native is True else sorted(native))[:_QUEUES]  # others' are left to RQ's schedulers
    holders = probe.ask_all(("GET", probe.keys.rq.scheduler_lock(queue)) for queue in queues)
    locks = ((text(holder), queue) for queue, holder in zip(queues, holders, strict=True) if holder)
    by_holder = grouped((holder, queue) for holder, queue in locks if holder != ours)
    for holder, held in sorted(by_holder.items()):
        yield warning(
            f"{_named(probe, holder)} has the scheduler's lock of {some(held)}: it moves RQ's delayed jobs there",
            "start workers without --with-scheduler: the leader moves these jobs, too, once their locks lapse"
            if not holder.startswith("zsched:")
            else 'let one namespace serve a queue: [rq] native = ["…"] in each',
        )
    if not by_holder:
        where = "" if native is True else f" in {some(queues)}; those of other queues are left to RQ's schedulers"
        yield fine(f"no other scheduler of RQ's delayed jobs{where}")


@health_check("waits_twice", Probe, "rq's delayed jobs")
def check_waits_twice(probe: Probe) -> Finding:
    """Report delayed jobs of RQ that also wait here: a service scheduled an imported job once more by RQ's own id."""
    keys = probe.keys
    registries = [keys.rq.registry("scheduled", queue) for queue in _queues(probe)[:_QUEUES]]
    found = probe.ask_all(("ZRANGE", registry, 0, _JOBS - 1) for registry in registries)
    ids = [text(id) for page in found for id in page or ()]
    lanes = [keys.due(lane) for lane in Priority]
    scores = probe.ask_all(("ZSCORE", lane, id) for id in ids for lane in lanes)
    twice = [id for n, id in enumerate(ids) if any(scores[n * len(lanes) : (n + 1) * len(lanes)])]
    if twice:
        number = f"{plural(len(twice), 'delayed job')} of RQ {'waits' if len(twice) == 1 else 'wait'} here, too"
        remedy = "the schedule here does not fire if RQ's job was deleted or scheduled again; cancel one of the two"
        return warning(f"{number}: {some(twice)}", remedy)
    return fine("no id waits both as a delayed job of RQ and as a schedule")


@health_check("rq_scheduler", Probe, "rq-scheduler")
def check_rq_scheduler(probe: Probe) -> Finding:
    """Report jobs of the package rq-scheduler. They are in one ZSET, and imported ones stay there."""
    if probe.server.is_in_cluster:
        return fine("rq-scheduler has no prefix, so its keys would be in other slots; they are not looked for")
    count, ids = probe.ask_all([("ZCARD", RQ_SCHEDULER_JOBS), ("ZRANGE", RQ_SCHEDULER_JOBS, 0, _JOBS - 1)])
    count, here = count or 0, sum(probe.ask_all(("EXISTS", probe.keys.schedule(text(id))) for id in ids or ()))
    running = _rq_schedulers(probe)
    jobs, names = plural(count, "job"), some(running.names) if running else ""
    remedy = "zsched import rq-scheduler" if count > here else ""
    if names and here:
        said = f"rq-scheduler runs ({names}) with {jobs}, {here:,} of them scheduled here, too: that runs twice"
        return problem(said, f"stop it, then: {remedy}" if remedy else "stop it: they run here")
    elif names:
        return warning(f"rq-scheduler runs ({names}) with {jobs}", f"stop it, then: {remedy}" if remedy else "stop it")
    elif count > here:
        seen = "cannot be asked" if running is None else "does not show" if not running.is_all else ""
        runs = f"whether it runs {seen}" if seen else "it does not run"
        return warning(f"rq-scheduler has {jobs}, {here:,} of them scheduled here ({runs})", remedy)
    elif count:
        return fine(f"rq-scheduler has {jobs}, all of them scheduled here, and no running rq-scheduler is seen")
    return fine("rq-scheduler has no jobs, and is not seen running")


@health_check("rq_cron", Probe, "rq's cron")
def check_rq_cron(probe: Probe) -> Iterator[Finding]:
    """Report RQ's own cron (``rq cron``), found by its heartbeats."""
    running = crons(probe.wire, probe.keys.rq, probe.reader.now_ms())
    imported = _imported(probe) if running else []
    for cron in running:
        said = f"RQ's cron runs: {cron.name}, {cron.module or 'of an unknown module'}"
        if any(cron.module and cron.is_of(module) for module in imported):
            yield problem(f"{said}, whose jobs were imported: they run twice", "stop it: they run here")
        else:
            yield warning(said, "to move in, stop it, and import the module you gave it: zsched import rq-cron MODULE")
    if not running:
        yield fine("RQ's cron does not run")


def _rq_schedulers(probe: Probe) -> RqSchedulers | None:
    """Return the running rq-schedulers; None if this user may not look for them."""
    try:
        return rq_schedulers(probe.wire, _STEPS)
    except RedisRefused as error:
        if is_denied(error):
            return None
        raise


def _imported(probe: Probe) -> list[str]:
    """Return the imported modules of RQ's cron, found by the owners of at most ``_JOBS`` recurring schedules."""
    ids = members(probe.wire, probe.keys.recurring(), _JOBS)
    owners = set(probe.ask_all(("HGET", probe.keys.schedule(id), "owner") for id in ids))
    return [text(owner).removeprefix(CRON_OWNER) for owner in owners if owner and text(owner).startswith(CRON_OWNER)]


def _queues(probe: Probe) -> list[str]:
    """Return the queues known to RQ, and the queues of its workers if this user may read them."""
    found = set(probe.queues())
    with suppress(RedisRefused):
        found.update(queue for worker in workers_of(probe.wire, probe.keys.rq) for queue in worker.queues)
    return sorted(found)


def _named(probe: Probe, holder: str) -> str:
    """Return the name of a lock's holder; since RQ 2.10 with host and process."""
    if holder.startswith("zsched:"):
        return f"the namespace {holder.removeprefix('zsched:')}"
    [about] = probe.ask_all([("HMGET", probe.keys.rq.scheduler(holder), "hostname", "pid")])
    where = f" on {text(about[0])}, pid {text(about[1] or b'?')}," if about and about[0] else ""
    return f"RQ's scheduler {holder}{where}"


# -- guards and signatures -----------------------------------------------------------------------------

_SCHEDULES: Final = 2000  # recurring ones, looked at most
_SOON_MS: Final = 30 * 86_400_000  # before the end of a signature, when it should be renewed


@health_check("guards", Probe)
def check_guards(probe: Probe) -> Iterator[Finding]:
    """Report which workers say that they run only signed jobs ([worker] guard)."""
    workers = workers_of(probe.wire, probe.keys.rq)
    enforcing, telling = ([one.name for one in workers if one.guard == mode] for mode in ("enforce", "warn"))
    others = [one.name for one in workers if one.guard not in ("enforce", "warn")]
    if others and enforcing:
        yield problem(
            f"workers that do not say that they run only signed jobs: {some(sorted(others))}; "
            f"that say so: {len(enforcing)}",
            'start the first ones as zsched worker, with [worker] guard = "enforce"',
        )
    elif enforcing and not telling:
        yield fine(f"all workers ({len(enforcing)}) say that they run only signed jobs, as any writer of RQ's keys can")
    elif not telling:
        yield fine("workers run any job, as with RQ ([worker] guard = off)" if workers else "no worker is registered")
    if telling:
        refused = sum(worker.warned for worker in workers if worker.guard == "warn")
        said = f"workers ({len(telling)}) say that they would have refused {plural(refused, 'job')}, and ran all"
        remedy = 'their logs have the reasons; then set [worker] guard = "enforce"'
        yield note(f"{said}: {some(sorted(telling))}", remedy)


@health_check("signatures", Probe)
def check_signatures(probe: Probe) -> Iterator[Finding]:
    """Check the signatures of recurring schedules: missing ones, and those that end soon. It needs no keys."""
    ids = members(probe.wire, probe.keys.recurring(), _SCHEDULES)[:_SCHEDULES]
    replies = probe.wire.replies(("HGET", probe.keys.template(id), SIGNATURE_FIELD) for id in ids)
    ends_ms: dict[str, int] = {}
    for id, reply in zip(ids, replies, strict=True):
        parts = parts_of(reply) if isinstance(reply, bytes) else None
        if parts is not None:
            ends_ms[id] = parts[1] * 1000
    if not ends_ms:
        yield fine("no recurring schedule is signed")
        return
    if unsigned := sorted(set(ids) - ends_ms.keys()):
        yield warning(
            f"{plural(len(unsigned), 'recurring schedule')} without a signature beside {len(ends_ms):,} with one: "
            f"{some(unsigned)}",
            "schedule each again by a client with keys; zsched keys sign --unsigned signs them unchanged",
        )
    now_ms = probe.clock.now_ms()
    ending = sorted((id for id, end_ms in ends_ms.items() if end_ms < now_ms + _SOON_MS), key=ends_ms.__getitem__)
    if ending:
        left_ms = ends_ms[ending[0]] - now_ms
        when = f"ends in {rough_duration(left_ms)}" if left_ms > 0 else "has ended"
        yield (warning if left_ms > 0 else problem)(
            f"the signature of {plural(len(ending), 'recurring schedule')} {when}, then workers with a guard refuse "
            f"the runs: {some(ending)}",
            "zsched keys sign --match '*' --kind recurring",
        )
    elif not unsigned:
        yield fine(f"{plural(len(ends_ms), 'recurring schedule')} signed, for 30 days or more")
