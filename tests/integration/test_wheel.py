"""
The wheel as somebody gets it who installs zsched by name: built, installed without the checkout, and used.

It needs pip's network, as making the virtual environment of the tests does.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.utils import canonicalize_name

from tests.builders.redises import connect
from tests.documents import PROJECT, pins, programs
from tests.faults.overdue import become_due
from tests.prefix import RQ
from tests.waiting import ENDS_S, eventually
from zsched import Client, __version__
from zsched.cli.shipped import SHIPPED
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once

INSTALL_S = 300
QUEUE = f"{RQ}:queue:email"
WHEEL, SDIST = f"zsched-{__version__}-py3-none-any.whl", f"zsched-{__version__}.tar.gz"


def build(folder: Path, umask: int) -> Path:
    """Build both from a copy of the files that git knows, which have new times and the rights of *umask*."""
    source, dist = folder / "source", folder / "dist"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=True, timeout=ENDS_S
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((PROJECT / name).read_bytes())
        target.chmod(0o777 & ~umask if os.access(PROJECT / name, os.X_OK) else 0o666 & ~umask)
    subprocess.run([sys.executable, "-m", "build", "--outdir", dist, source], check=True, timeout=INSTALL_S)
    return dist


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a built wheel and sdist."""
    return build(tmp_path_factory.mktemp("built"), 0o022)


class Installed:
    """The wheel in a virtual environment of its own, with commands that know nothing of the checkout."""

    def __init__(self, folder: Path, dist: Path, extras: str) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=INSTALL_S)
        self._bin, self.folder = folder / "venv" / "bin", folder
        self.run("python", "-m", "pip", "install", "--quiet", f"--find-links={dist}", f"zsched[{extras}]")

    def run(self, program: str, *arguments: str, code: int = 0, **settings: str) -> str:
        """Return all that a command of this environment printed; it must end with *code*."""
        command = [self._bin / program, *arguments]
        ran = subprocess.run(
            command, cwd=self.folder, env=self._env(settings), check=False, timeout=INSTALL_S,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert code == ran.returncode, ran.stdout
        return ran.stdout

    def spawn(self, guard: Guard, program: str, *arguments: str, **settings: str) -> None:
        """Start a command of this environment."""
        command = [str(self._bin / program), *arguments]
        guard.spawn(command, env=self._env(settings), cwd=self.folder, stderr=subprocess.DEVNULL)

    def _env(self, settings: dict[str, str]) -> dict[str, str]:
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8"} | pip | settings


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"), dist, "embedded")


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRedis]:
    with Guard() as guard, EmbeddedRedis(guard=guard) as server:
        yield server


def test_two_builds_of_the_same_files_are_equal(dist: Path, tmp_path: Path) -> None:
    again = build(tmp_path, 0o002)

    for name in (WHEEL, SDIST):
        assert sha256((dist / name).read_bytes()).digest() == sha256((again / name).read_bytes()).digest(), name


def test_the_wheel_has_each_file_of_zsched_and_nothing_else(dist: Path) -> None:
    package = PROJECT / "zsched"
    files = {str(file.relative_to(PROJECT)) for file in package.rglob("*") if file.is_file() and file.suffix != ".pyc"}

    with ZipFile(dist / WHEEL) as wheel:
        names = {name for name in wheel.namelist() if not name.startswith(f"zsched-{__version__}.dist-info/")}

    assert files | {f"zsched/shipped/{name}" for name in SHIPPED} == names


def test_the_sdist_makes_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "-xf", dist / SDIST, "-C", tmp_path], check=True, timeout=INSTALL_S)
    source = tmp_path / f"zsched-{__version__}"

    subprocess.run([sys.executable, "-m", "build", "--wheel", source], check=True, timeout=INSTALL_S)

    assert (dist / WHEEL).read_bytes() == (source / "dist" / WHEEL).read_bytes()


def test_the_installed_command_says_its_version(installed: Installed) -> None:
    assert f"zsched {__version__}\n" == installed.run("zsched", "--version")
    assert "/venv/" in installed.run("python", "-c", "import zsched; print(zsched.__file__)")


def test_the_wheel_prints_the_files_of_the_checkout(installed: Installed) -> None:
    for name in SHIPPED:
        [path] = [path for place in ("config", "deploy") for path in (PROJECT / place).rglob(name)]
        assert path.read_text() == installed.run("zsched", "files", name)


def test_the_demo_runs_from_the_wheel_alone(installed: Installed) -> None:
    shown = installed.run("zsched", "up", "--demo", "--for", "4")

    assert "for the console: pip install 'zsched[web]'" in shown
    found = re.search(r"([\d,]+) runs fired, ([\d,]+) executed, 0 failed", shown)
    assert found is not None, shown
    assert found[1] == found[2]


@pytest.mark.parametrize(
    ("command", "code", "extra"),
    [
        ("zsched web", 2, "web"),
        ("zsched daemon", 2, "ops"),
        ("python -c __import__('zsched').AsyncClient", 1, "async"),
    ],
)
def test_a_program_without_its_extra_names_it(
    installed: Installed, server: EmbeddedRedis, command: str, code: int, extra: str
) -> None:
    settings = {"ZSCHED_REDIS_URL": server.url, "ZSCHED_METRICS_LISTEN": "127.0.0.1:9464"}

    shown = installed.run(*command.split(), code=code, **settings)

    assert f"pip install 'zsched[{extra}]'" in shown


def test_the_quick_start_works_from_the_wheel_alone(installed: Installed, server: EmbeddedRedis) -> None:
    url = {"ZSCHED_REDIS_URL": server.url, "RQ_REDIS_URL": server.url}
    files = programs("README.md")
    files["service.py"] = files["service.py"].replace("timedelta(seconds=20)", "timedelta(hours=1)")
    for name, text in files.items():
        (installed.folder / name).write_text(text)

    with Guard() as guard, connect(server.url) as commands:
        installed.spawn(guard, "zsched", "daemon", **url)
        assert "id='reminder-e1', outcome='created'" in installed.run("python", "service.py", **url)
        become_due(commands, "reminder-e1")
        eventually(lambda: commands.exists(QUEUE))
        assert "e1 begins in 60 minutes (push)" in installed.run("rq", "worker", "--burst", "email", **url)
        eventually(lambda: "succeeded" in str(Client.from_url(server.url).why("reminder-e1").lines))


def test_make_install_takes_exactly_the_locked_packages(tmp_path: Path) -> None:
    home = tmp_path / "usr/local/lib/zsched"
    command = ["make", "install", f"DESTDIR={tmp_path}", f"PYTHON={sys.executable}"]
    subprocess.run(command, cwd=PROJECT, check=True, timeout=INSTALL_S)

    listed = [home / "bin" / "python", "-m", "pip", "list", "--format=json"]
    packages = json.loads(subprocess.run(listed, check=True, timeout=ENDS_S, capture_output=True).stdout)

    locked = pins(PROJECT / "deploy" / "requirements" / "ops.txt")
    taken = {canonicalize_name(one["name"]): one["version"] for one in packages}
    assert {"pip", "setuptools", "zsched"} >= taken.keys() - locked.keys()
    assert {name: locked[name] for name in taken.keys() & locked.keys()}.items() <= taken.items()
