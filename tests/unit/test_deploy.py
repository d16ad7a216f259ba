"""The files of ``make install`` on a machine, and the verdict of systemd on the units."""

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.builders.command_line import Zsched
from tests.documents import LOCKS, pages, pins
from tests.waiting import ENDS_S
from zsched.cli.program import USAGE
from zsched.cli.shipped import SHIPPED
from zsched.config.reading import REDIS_CREDENTIAL
from zsched.config.settings import Settings
from zsched.core.clock import ManualClock
from zsched.daemon.supervisor import Supervisor
from zsched.metrics.pages import HANDLERS
from zsched.web.accounts_file import _OF_ROOT

CHECKOUT = Path(__file__).parents[2]
DAEMONS, WEBS = ("zsched.service", "zsched@.service"), ("zsched-web.service", "zsched-web@.service")
UNITS = (*DAEMONS, *WEBS)
COMMANDS = Zsched("redis://localhost:1/0")  # none of these commands connects
MOST_EXPOSED = 2.0  # of 10, by systemd-analyze security

# A Python that makes a virtual environment of the files that name its place, and leaves out all that takes time.
PYTHON = """#!/bin/sh
case "$1 $2" in
"-m venv")
  mkdir -p "$3/bin" "$3/lib" && cp "$0" "$3/bin/python" && echo "command = python -m venv $3" > "$3/pyvenv.cfg" ;;
"-m pip")
  printf '#!%s\\nexit 0\\n' "$0" > "${0%python}zsched" && chmod +x "${0%python}zsched" ;;
esac
"""


def make(folder: Path, target: str, *variables: str) -> None:
    python = folder / "python3"
    if not python.exists():
        python.write_text(PYTHON)
        python.chmod(0o755)
    command = ["make", "--no-print-directory", target, f"PYTHON={python}", *variables]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=ENDS_S)
    assert done.returncode == 0, done.stderr


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def unit(name: str) -> str:
    return (CHECKOUT / "deploy" / "systemd" / name).read_text()


PROJECT_TABLE = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())


def wanted(extras: Iterable[str]) -> Iterator[Requirement]:
    """Yield what zsched with *extras* needs, of other projects."""
    optional = PROJECT_TABLE["project"]["optional-dependencies"]
    for text in (*PROJECT_TABLE["project"]["dependencies"], *(each for extra in extras for each in optional[extra])):
        requirement = Requirement(text)
        if requirement.name == "zsched":
            yield from wanted(requirement.extras)
        else:
            yield requirement


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_file_of_requirements_names_only_packages_with_hashes(lock: Path) -> None:
    assert pins(lock)


@pytest.mark.parametrize("lock", [lock for lock in LOCKS if lock.stem != "build"], ids=lambda lock: lock.stem)
def test_a_locked_package_is_within_the_range_of_pyproject(lock: Path) -> None:
    pinned = pins(lock)

    for requirement in wanted(() if lock.stem == "core" else lock.stem.split("-")):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


def test_make_install_writes_below_destdir_and_names_it_nowhere(tmp_path: Path) -> None:
    stage = tmp_path / "stage"

    make(tmp_path, "install", f"DESTDIR={stage}")

    home, manual = "usr/local/lib/zsched", "usr/local/share/doc/zsched"
    assert {name for name in files(stage) if not name.startswith(manual)} == {
        "etc/zsched/zsched.toml",
        "usr/local/bin/zsched",
        *(f"usr/local/lib/systemd/system/{name}" for name in UNITS),
        *(f"{home}/{name}" for name in ("bin/python", "bin/zsched", "pyvenv.cfg")),
    }
    assert (stage / "usr/local/bin/zsched").resolve() == stage / home / "bin/zsched"
    assert f"#!/{home}/bin/python" == (stage / home / "bin/zsched").read_text().splitlines()[0]
    assert [] == [name for name in files(stage) if str(stage).encode() in (stage / name).read_bytes()]


def test_every_page_is_installed_where_the_links_of_other_pages_lead(tmp_path: Path) -> None:
    make(tmp_path, "install", f"DESTDIR={tmp_path}/stage")

    manual = tmp_path / "stage/usr/local/share/doc/zsched"
    assert {str(page.relative_to(CHECKOUT)) for page in pages()} <= files(manual)
    assert {"config/zsched.toml", "deploy/prometheus/alerts.yml", "docs/pictures/dashboard.png"} <= files(manual)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_file_for_operators_is_printed_unchanged(name: str) -> None:
    [path] = [path for place in ("config", "deploy") for path in (CHECKOUT / place).rglob(name)]

    assert path.read_text() == COMMANDS("files", name).stdout


def test_the_files_for_operators_are_listed_with_their_purposes() -> None:
    assert {*UNITS, "users.acl", "redis.conf"} <= {one["name"] for one in COMMANDS.json("files")}
    assert "zsched.json          Grafana: a dashboard to import" in COMMANDS("files").stdout.splitlines()


def test_an_unknown_file_for_operators_is_answered_with_the_known_ones() -> None:
    told = COMMANDS.refusal("files", "zsched.conf", code=USAGE)

    assert "'zsched.conf' is not one of 'zsched.toml', 'schedules.toml'" in told


def test_an_installation_in_other_places_adjusts_the_units(tmp_path: Path) -> None:
    make(tmp_path, "install", f"DESTDIR={tmp_path}/stage", "PREFIX=/opt/z", "SYSCONFDIR=/opt/etc", "UNITDIR=/units")

    installed = tmp_path / "stage" / "units"
    for name in UNITS:
        text = (installed / name).read_text()
        process = "web" if name in WEBS else "daemon"
        assert f"\nExecStart=/opt/z/bin/zsched {process} --config /opt/etc/zsched/" in text
        assert "\nLoadCredential=redis-password:/opt/etc/zsched/" in text
        assert "/usr/local" not in text
        assert " /etc/zsched" not in text
    assert (tmp_path / "stage/opt/etc/zsched/zsched.toml").exists()


def test_installing_again_changes_nothing_and_leaves_edited_settings_alone(tmp_path: Path) -> None:
    stage = f"DESTDIR={tmp_path}/stage"
    make(tmp_path, "install", stage)
    settings = tmp_path / "stage/etc/zsched/zsched.toml"
    settings.write_text('namespace = "edited"\n')
    before = {name: (tmp_path / "stage" / name).read_bytes() for name in files(tmp_path / "stage")}

    make(tmp_path, "install", stage)

    assert before == {name: (tmp_path / "stage" / name).read_bytes() for name in files(tmp_path / "stage")}


def test_uninstalling_leaves_settings_and_nothing_else(tmp_path: Path) -> None:
    stage = f"DESTDIR={tmp_path}/stage"
    make(tmp_path, "install", stage)
    (tmp_path / "stage/etc/zsched/a.toml").write_text("")

    make(tmp_path, "uninstall", stage)
    assert {"etc/zsched/zsched.toml", "etc/zsched/a.toml"} == files(tmp_path / "stage")

    make(tmp_path, "uninstall", stage)  # nothing there any more


@pytest.mark.parametrize(("pair", "names"), [(DAEMONS, 4), (WEBS, 3)])
def test_the_template_equals_the_plain_unit_except_for_names(pair: tuple[str, str], names: int) -> None:
    plain, template = (re.sub(r"\A(#.*\n)+", "", unit(name)) for name in pair)

    of_a_name = re.sub(r"/etc/zsched/zsched\b", "/etc/zsched/%i", plain)
    of_a_name = of_a_name.replace("StateDirectory=zsched\n", "StateDirectory=zsched-%i\n")
    of_a_name = of_a_name.replace("the scheduler of RQ jobs\n", "the scheduler of RQ jobs (%i)\n")

    assert of_a_name == template
    assert names == template.count("%i")


@pytest.mark.parametrize("name", [DAEMONS[0], WEBS[0]])
def test_a_unit_has_a_watchdog_our_credential_and_a_restart_unless_settings_are_wrong(name: str) -> None:
    watchdog_s = float(re.findall(r"(?m)^WatchdogSec=(\d+)$", unit(name))[0])
    restart = dict(re.findall(r"(?m)^(Restart\w*)=(.+)$", unit(name)))

    assert Supervisor(ManualClock(), watchdog_ms=watchdog_s * 1000).impatience(Settings().redis.timeout_s) is None
    assert f"\nLoadCredential={REDIS_CREDENTIAL}:" in unit(name)
    assert f"\nSetCredential={REDIS_CREDENTIAL}:\\n\n" in unit(name)
    assert ("always", str(USAGE)) == (restart["Restart"], restart["RestartPreventExitStatus"])


def test_a_daemon_has_no_privileges_and_sees_no_home_and_writes_to_its_state_alone() -> None:
    lines = set(unit(UNITS[0]).splitlines())

    assert {
        "DynamicUser=yes", "User=zsched", "CapabilityBoundingSet=", "AmbientCapabilities=", "NoNewPrivileges=yes",
        "ProtectHome=yes", "ProtectSystem=strict", "StateDirectory=zsched", "StateDirectoryMode=0700", "UMask=0077",
    } <= lines  # fmt: skip
    assert not [line for line in lines if line.startswith(("ReadWritePaths", "BindPaths", "SupplementaryGroups"))]


def test_the_web_is_confined_as_a_daemon_is_and_writes_to_its_state_alone() -> None:
    def confinement(name: str) -> list[str]:
        lines = unit(name).partition("\nCapabilityBoundingSet=")[2].splitlines()
        return [line for line in lines if not line.startswith("#")]

    lines = unit(WEBS[0]).splitlines()
    assert confinement(DAEMONS[0]) == confinement(WEBS[0])
    ours = {"DynamicUser=yes", "User=zsched-web", f"StateDirectory={Path(_OF_ROOT).name}", "StateDirectoryMode=0700"}
    assert ours <= set(lines)
    assert "/var/lib" == str(Path(_OF_ROOT).parent)
    assert not [line for line in lines if line.startswith(("ReadWritePaths", "BindPaths"))]


def test_a_unit_bounds_files_threads_and_memory_above_what_a_daemon_needs() -> None:
    limits = dict(re.findall(r"(?m)^(LimitNOFILE|TasksMax|MemoryMax)=(.+)$", unit(UNITS[0])))

    assert int(limits["TasksMax"]) >= 4 * HANDLERS  # beside them a daemon has some seven threads
    assert int(limits["LimitNOFILE"]) >= 1024
    assert limits["MemoryMax"].endswith("%")  # of the machine: no size fits all


def test_the_unit_shows_proc_stat_because_process_metrics_need_it(tmp_path: Path) -> None:
    """A failure means that prometheus_client no longer needs it: then the units may have ProcSubset=pid."""
    prometheus_client = pytest.importorskip("prometheus_client", reason="needs the extra ops")
    (tmp_path / "self").symlink_to("/proc/self")  # what ProcSubset=pid leaves

    assert [] == list(prometheus_client.ProcessCollector(proc=str(tmp_path), registry=None).collect())
    assert "\nProcSubset" not in unit(UNITS[0])


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The folder of units whose program exists."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed here")
    make(tmp_path, "install", f"PREFIX={tmp_path}/usr", f"SYSCONFDIR={tmp_path}/etc", f"UNITDIR={tmp_path}/units")
    return tmp_path / "units"


def analyze(*arguments: str) -> str:
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=ENDS_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", UNITS)
def test_systemd_verifies_a_unit_without_complaints(installed: Path, name: str) -> None:
    assert "" == analyze("verify", "--man=no", str(installed / name))


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_stays_below_the_exposure_limit(installed: Path, name: str) -> None:
    said = analyze("security", "--offline=true", "--no-pager", str(installed / name))

    assert exposure(said) <= MOST_EXPOSED, said


@pytest.mark.parametrize("name", UNITS)
def test_the_drop_in_for_addresses_is_accepted_by_systemd(installed: Path, name: str) -> None:
    [drop_in] = re.findall(
        r"(?s)```ini\n(\[Service\]\nIPAddressDeny.*?)```", (CHECKOUT / "docs/how-to/run-under-systemd.md").read_text()
    )
    file = installed / name
    assert "Service does not define an IP address allow list" in address_line(file)

    file.write_text(file.read_text().replace("[Service]\n", drop_in, 1))

    assert "" == analyze("verify", "--man=no", str(file))
    assert "Service defines IP address allow list" in address_line(file)


def address_line(unit: Path) -> str:
    """Return the addresses that a unit reaches, according to systemd."""
    said = analyze("security", "--offline=true", "--no-pager", str(unit))
    [line] = [line for line in said.splitlines() if "IPAddressDeny=" in line]
    return line


def exposure(said: str) -> float:
    found = re.findall(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert found, said
    return float(found[0])
