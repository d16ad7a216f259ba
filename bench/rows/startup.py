"""Duration of whole processes: what people wait for before a command does anything, and a service before it serves."""

import os
import subprocess
import sys
from functools import partial
from statistics import median

from bench import load
from bench.arena import Arena, Ground
from bench.children import CHECKOUT
from bench.contest import Contestant, Figure, contest
from bench.results import Broken, Result

_AHEAD_MS, _OVER_MS = 86_400_000, 3_600_000
_SCHEDULES = 10
_COMMAND = "import sys; from zsched.cli import main; sys.exit(main())"  # what the installed script does
_PYTHON, _REDIS, _RQ, _CLIENT = "python", "import redis", "import rq", "a client"
_VERSION, _LS = "zsched --version", "zsched ls"


def measure(arena: Arena) -> Result:
    """The row ``startup``."""
    starts = arena.size(10, 2)
    result = Result("startup", f"from start to end of a process; the median of {starts} starts", baseline=_REDIS)
    with arena.redis() as ground:
        processes = {
            _PYTHON: ["pass"],
            _REDIS: ["import redis"],
            _RQ: ["import rq"],
            _CLIENT: ["import zsched; zsched.Client.from_url('redis://localhost')"],
            _VERSION: [_COMMAND, "--version"],
            _LS: [_COMMAND, "ls", "--redis-url", ground.url],
        }
        contestants = [
            Contestant(who, f"{starts} starts", "ms", partial(_started, arena, ground, starts, arguments))
            for who, arguments in processes.items()
        ]
        contest(arena, ground, result, contestants)
    version, ls = result.find(_VERSION), result.find(_LS)
    result.within("150 ms for zsched --version", version.median if version else None, 150)
    result.within("250 ms for zsched ls", ls.median if ls else None, 250)
    result.at_most("1.3 × import redis for a client", result.ratio(_CLIENT), 1.3)
    result.at_most("1 × import redis for zsched --version", result.ratio(_VERSION), 1)
    result.at_most("1.5 × import redis for zsched ls", result.ratio(_LS), 1.5)
    result.notes.append(f"zsched ls: {_SCHEDULES} schedules; modules are compiled before; a client: Client.from_url")
    return result


def _started(arena: Arena, ground: Ground, starts: int, arguments: list[str]) -> Figure:
    load.put(ground.client(), load.spread(_SCHEDULES, arena.clock.now_ms() + _AHEAD_MS, _OVER_MS))
    _start(arena, arguments)  # which compiles what is not compiled yet
    took_ms = [_start(arena, arguments) for _ in range(starts)]
    return Figure(median(took_ms), {"min": min(took_ms)})


def _start(arena: Arena, arguments: list[str]) -> float:
    """Run python -c with *arguments*, and return how long that took, in ms."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ZSCHED_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CHECKOUT), kept.get("PYTHONPATH"))))
    command = [sys.executable, "-c", *arguments]
    started_ms = arena.clock.monotonic_ms()
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=kept)
    took_ms = arena.clock.monotonic_ms() - started_ms
    if ended.returncode != 0:
        raise Broken(f"{command} ended with {ended.returncode}: {ended.stderr.decode(errors='replace')[-200:]}")
    return took_ms
