"""
The guard of this worker process, by its settings: ``[worker]`` and ``[signing]`` of the file that ``ZSCHED_CONFIG``
names, or of the environment.

RQ makes a worker's classes by itself, so they find the guard here. It is made once, before the first job.
"""

from __future__ import annotations

from functools import cache

from zsched.config.settings import Settings, load_settings
from zsched.errors import ConfigError
from zsched.rq.guard import GuardMode, JobGuard
from zsched.storage.keyfile import KeyFile


@cache
def guard() -> JobGuard:
    """
    Return the guard of this process. It imports ``[worker] task_modules``.

    Raises:
        ConfigError: settings or keys are wrong, or nothing would be allowed.
        InvalidTask: a module cannot be imported.
    """
    return guard_of(load_settings())


def guard_of(settings: Settings) -> JobGuard:
    """Return the guard by *settings*. Raises as ``guard``."""
    worker = settings.worker
    mode = GuardMode(worker.guard)
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
