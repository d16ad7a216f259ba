"""
The fork server: a Python that has imported zsched, RQ and the web once, and becomes each command that a test starts.

Run as a script with the number of a socket. A request has a command as ``python`` gets it, its environment and folder,
and brings its descriptors. The new process is made by clone(2) with CLONE_PARENT, so it is a child of the test's
process: pid, ``wait``, signals and exit status are there as those of any child. Then it does what a fresh interpreter
does: environment, folder, session, ``sys.argv``, ``sys.path``, streams; and it runs the module or the code as __main__.

Unlike after a fresh start, modules are imported already, and those that read the environment at import have read this
process's. ``starts`` sends only commands here for which that makes no difference.
"""

import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import platform
import runpy
import signal
import socket
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODULES = {  # what each kind of command is forked with
    "rq": ("rq.cli", "rq.worker", "rq.job", "redis.retry"),
    "zsched": ("zsched.cli.program", "zsched.daemon.process", "zsched.archive", "prometheus_client", "rich.live"),
    "web": ("zsched.web.app", "zsched.dashboard", "uvicorn", "httptools", "uvloop"),
}  # fmt: skip
_CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
_CLONE_PARENT = 0x8000
_REQUEST_BYTES = 1 << 20
_DESCRIPTORS = 64


def main() -> Callable[[], object] | None:
    """Serve requests until the other side closes. Return in each new process, with the function that is its command."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: who asks for commands ends them
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    path, known = sys.path[1:], set[str]()
    sys.path[0] = str(Path(__file__).parents[2])  # the zsched beside these tests, whichever is installed
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        while True:
            data, descriptors, *_ = socket.recv_fds(requests, _REQUEST_BYTES, _DESCRIPTORS)
            if not data:
                return None
            request = json.loads(data)
            _know(known, request["kinds"])
            if _clone() == 0:
                if request["session"]:  # before anybody knows the pid, as with a true start
                    os.setsid()
                signal.signal(signal.SIGINT, signal.default_int_handler)
                requests.send(str(os.getpid()).encode())
                break
            for descriptor in descriptors:
                os.close(descriptor)
        requests.detach()
    return _become(request, descriptors, path)


def _know(known: set[str], kinds: list[str]) -> None:
    """Import what the *kinds* of commands need, the first time."""
    for kind in kinds:
        if kind not in known:
            known.add(kind)
            for name in MODULES[kind]:
                importlib.import_module(name)
            gc.collect()
            gc.freeze()  # the copies share these pages as long as no collection writes into them


def _clone() -> int:
    """Fork, but as a child of this process's parent."""
    system = ctypes.PyDLL(None)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = system.syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("clone(2) failed")
    return int(pid)


def _become(request: dict[str, Any], descriptors: list[int], path: list[str]) -> Callable[[], object]:
    """Make this process what a fresh ``python`` with this command would be; return the function that runs it."""
    _take(dict(zip([0, 1, 2, *request["pass_fds"]], descriptors, strict=True)))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    _open_streams()
    arguments = request["arguments"]
    sys.orig_argv = [sys.executable, *arguments]
    sys.path[:] = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *path]
    if arguments[0] == "-m":
        sys.path.insert(0, request["folder"])
        sys.argv = arguments[1:]
        return lambda: runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    sys.path.insert(0, "")
    sys.argv = ["-c", *arguments[2:]]
    program = sys.modules["__main__"] = types.ModuleType("__main__")
    program.__annotations__ = {}
    return lambda: exec(compile(arguments[1], "<string>", "exec"), vars(program))


def _take(wanted: dict[int, int]) -> None:
    """Give each descriptor the number that is *wanted* of it, and close all others."""
    above = max(wanted) + 1
    moved = {number: fcntl.fcntl(descriptor, fcntl.F_DUPFD, above) for number, descriptor in wanted.items()}
    after = 0
    for number, descriptor in sorted(moved.items()):
        if after < number:
            os.closerange(after, number)
        os.dup2(descriptor, number)
        after = number + 1
    os.closerange(after, os.sysconf("SC_OPEN_MAX"))


def _open_streams() -> None:
    """Open the standard streams as the interpreter does; encoding and buffers as this process has them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        raw, own = io.FileIO(number, "w" if number else "r", closefd=False), getattr(sys, name)
        buffer: Any = io.BufferedReader(raw) if number == 0 else raw if own.write_through else io.BufferedWriter(raw)
        stream = io.TextIOWrapper(
            buffer,
            encoding=own.encoding,
            errors=own.errors,
            line_buffering=not own.write_through and (number == 2 or os.isatty(number)),
            write_through=own.write_through,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    run = main()
    if run is not None:
        run()
