"""
The guard of a worker: it decides whether a job may run, before anything of the job is imported or unpickled.

::

    the fields of a job ──► which functions does it name? ──► are they allowed? ──► is it signed? ──► Permission
                              (read, not run)                (patterns, tasks)     (run: signature; RQ's job: by choice)

- A run of zsched needs a signature of exactly this run, or of its recurring schedule, by a key of the worker's file.
- A key with limits signs plain values only. Else a pickle could call what the limits forbid.
- A job of RQ (its id is not a run id) cannot be signed. It may run if ``unsigned_rq_jobs`` says so. Its payload must
  be of plain values, since any writer of RQ's queues can make it.
- The function and the callbacks of both must be allowed: tasks of the worker's modules, or paths that match a pattern.

What no signature covers is read without running it (``zsched.rq.plain``): results, also of dependencies, and ``meta``
of a job that may not run.

Not guaranteed: a replay. A signature of a recurring schedule holds for all of its runs, and that of a run for as long
as it is valid (SECURITY.md). And a task may fetch jobs with classes of RQ itself, which unpickle what they find.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import Any, Final, NamedTuple

from rq.exceptions import DeserializationError

from zsched.config.settings import load_settings
from zsched.core.clock import Clock, SystemClock
from zsched.core.options.allowed import is_allowed
from zsched.core.runs.run_id import RunId
from zsched.core.wording import in_a_line, plural
from zsched.errors import ConfigError
from zsched.rq.plain import PlainPickles, WarnedPickles, log
from zsched.storage import signing
from zsched.storage.keyfile import KeyFile, KeyRing
from zsched.storage.signing import BadSignature, Checked, Fields
from zsched.storage.unpickling import NotPlain, demand_plain

_LONGEST_REASON: Final = 300  # characters
_UNSIGNED: Final = "it is not a run of zsched, and [worker] unsigned_rq_jobs is false"


class GuardMode(StrEnum):
    """The fate of a job that the guard refuses."""

    OFF = "off"  # runs it: nobody looks
    WARN = "warn"  # runs it, and tells
    ENFORCE = "enforce"  # refuses it


class JobRefused(DeserializationError):
    """
    The guard of this worker refuses the job. The text of the error is what the tracker recognizes as a refusal; RQ
    treats its base class as a job whose payload cannot be read.
    """


class Permission(NamedTuple):
    """
    A decision on a job. ``refusal``: why it may not run; "": it may. ``checked``: its good signature, if it has one.
    ``func``: the dotted path of its function; "" if nobody could read it.
    """

    refusal: str
    checked: Checked | None = None
    func: str = ""

    @property
    def is_trusted(self) -> bool:
        """True if a holder of a key without limits made its payload and its meta, so that they may be unpickled."""
        return not self.refusal and self.checked is not None and not self.checked.key.is_limited


class JobGuard:
    """
    Decides on jobs. *patterns*: allowed functions. *tasks*: further allowed functions, by path. *keys*: None refuses
    each run.
    """

    def __init__(
        self,
        mode: GuardMode,
        patterns: Collection[str] = (),
        tasks: Collection[str] = (),
        keys: KeyFile | None = None,
        *,
        allows_unsigned: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.mode, self._patterns, self._tasks, self._keys = mode, patterns, frozenset(tasks), keys
        self._allows_unsigned, self._clock = allows_unsigned, clock or SystemClock()
        self.is_on = mode is not GuardMode.OFF  # jobs are looked at
        self.reader = PlainPickles if mode is GuardMode.ENFORCE else WarnedPickles  # of what no signature covers
        self.is_deciding = False  # a job is being read: a signal to stop must not interrupt that
        self._told = ""  # the last problem of the file of keys that was logged

    def allowed_text(self) -> str:
        """Return what may run, for people: ``3 tasks and app.jobs.* are allowed; keys k2, k1``."""
        tasks = [plural(len(self._tasks), "task")] if self._tasks else []
        allowed = " and ".join([*tasks, *self._patterns])
        verb = "is" if len(self._tasks) + len(self._patterns) == 1 else "are"
        keys = "no keys" if self._keys is None else f"keys {', '.join(self._keys.current().keys)}"
        return f"{allowed} {verb} allowed; {keys}{'; unsigned jobs of RQ, too' if self._allows_unsigned else ''}"

    def decide(self, job_id: str, fields: Mapping[str, Any], server_s: Callable[[], int]) -> Permission:
        """
        Decide on the job with these *fields* of its hash, as bytes. Never raises. *server_s* returns Redis' time, for
        a run that would be too early by the clock of this machine.
        """
        try:
            names = signing.called(fields)
        except Exception as error:  # any bytes may stand there
            return _refused(f"its call cannot be read: {_told(error)}")
        func = names.paths[0]
        for path in names.paths:
            if path not in self._tasks and not is_allowed(path, self._patterns):
                return _refused(f"{path} is not allowed here", func)
        try:
            if RunId.ours(job_id) is None:
                self._demand_plain(fields)
                return Permission("", func=func)
            return Permission("", self._demand_signed(job_id, fields, server_s), func)
        except (BadSignature, NotPlain) as error:
            return _refused(str(error), func)
        except Exception as error:
            return _refused(f"it cannot be checked: {_told(error)}", func)

    def resigned(self, job_id: str, fields: Fields, checked: Checked) -> bytes:
        """
        Return a signature for the new *fields* of a job that runs by the good signature *checked*, by the same key and
        for as long: its task rewrote ``meta``.
        """
        parts = RunId.parse(job_id)
        shared = signing.shared_digest("" if parts is None else parts.namespace, fields)
        return signing.Stamp(checked.key, signing.Subject.RUN_NOW, shared, checked.until_s).sign(job_id, fields["data"])

    def _demand_signed(self, job_id: str, fields: Fields, server_s: Callable[[], int]) -> Checked:
        """Return the good signature. Raises BadSignature."""
        if self._keys is None:
            raise BadSignature("this worker has no keys: [signing] keys_file is not set")
        try:
            ring = self._keys.current()
            self._tell_of(self._keys)
            with suppress(signing.TooEarly):
                return _checked(ring, job_id, fields, self._clock.now_ms() // 1000)
            return _checked(ring, job_id, fields, server_s())
        except ConfigError as error:
            raise BadSignature(f"this worker cannot read its keys: {error}") from error

    def _tell_of(self, keys: KeyFile) -> None:
        """Log once why a change of the file of keys is not used."""
        if keys.problem != self._told:
            self._told = keys.problem
            if keys.problem:
                log.error("guard: still using the keys that were read before: %s", keys.problem)

    def _demand_plain(self, fields: Fields) -> None:
        """Raise NotPlain unless a job of RQ may run."""
        if not self._allows_unsigned:
            raise NotPlain(_UNSIGNED)
        if fields.get("webhooks"):
            raise NotPlain("it has webhooks, and any writer of RQ's queues could name their addresses")
        demand_plain(fields["data"])


def _refused(reason: str, func: str = "") -> Permission:
    """Return a refusal. *reason* may have texts of the job: a log gets one line of it, without control characters."""
    return Permission(in_a_line(reason, _LONGEST_REASON), func=func)


def _checked(ring: KeyRing, job_id: str, fields: Fields, now_s: int) -> Checked:
    """Return the good signature, as it is at *now_s*. Raises BadSignature."""
    checked = signing.check_run(ring, job_id, fields, now_s)
    signing.demand_in_limits(checked.key, fields)
    return checked


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if not isinstance(error, NotPlain) else str(error)


@cache
def guard() -> JobGuard:
    """
    Return the guard of this worker process, by its settings: ``[worker]`` and ``[signing]`` of the file that
    ``ZSCHED_CONFIG`` names, or of the environment. It imports ``[worker] task_modules``.

    RQ makes a worker's classes by itself, so they find the guard here. It is made once, before the first job.

    Raises:
        ConfigError: settings or keys are wrong, or nothing would be allowed.
        InvalidTask: a module cannot be imported.
    """
    settings = load_settings()
    worker, mode = settings.worker, GuardMode(settings.worker.guard)
    if mode is GuardMode.OFF:
        return JobGuard(mode)
    from zsched.tasks.lookup import tasks_of  # imported late: a worker without a guard needs no typeguard

    tasks = {f"{module}.{name}" for module in worker.task_modules for name in tasks_of(module)}
    if not tasks and not worker.allow_callables:
        problem = f"[worker] guard={worker.guard!r}: no function is allowed"
        raise ConfigError(f"{problem}; name modules in [worker] task_modules, or functions in allow_callables")
    keys = None if settings.signing.keys_file is None else KeyFile(settings.signing.keys_file)
    if keys is not None:
        keys.current()  # a file that cannot be used ends the worker now, and not its first job
    elif mode is GuardMode.ENFORCE and not worker.unsigned_rq_jobs:
        problem = "[worker] guard='enforce': without keys no job could run"
        raise ConfigError(f"{problem}; set [signing] keys_file, or [worker] unsigned_rq_jobs = true")
    return JobGuard(mode, worker.allow_callables, tasks, keys, allows_unsigned=worker.unsigned_rq_jobs)
