"""``zsched files``: what operators need beside the program, from the wheel or from a checkout."""

from importlib import resources
from pathlib import Path
from typing import Final

import click

from zsched.cli.output import Table
from zsched.cli.program import Invocation, command, program

# By name, each with its purpose; pyproject.toml has their places in a checkout.
SHIPPED: Final = {
    "zsched.toml": "all settings, each with its unit and default",
    "schedules.toml": "schedules for `zsched apply`, as an example",
    "zsched.service": "systemd: a daemon",
    "zsched@.service": "systemd: more daemons on one machine",
    "zsched-web.service": "systemd: the console and the HTTP API",
    "zsched-web@.service": "systemd: more of them on one machine",
    "redis.conf": "settings of Redis",
    "prometheus.yml": "Prometheus: whom to scrape, as an example",
    "alerts.yml": "Prometheus: alerts",
    "alertmanager.yml": "Alertmanager: who gets which alert, as an example",
    "zsched.json": "Grafana: a dashboard to import",
}
_USERS: Final = "users.acl"
_VARIABLE: Final = "_ZSCHED_COMPLETE"  # with it set, click completes instead of running a command
_COMPLETIONS: Final = {f"completion.{shell}": shell for shell in ("bash", "zsh", "fish")}
_FILES: Final = {
    **SHIPPED,
    _USERS: "users of Redis, with their rights to this namespace and prefix",
    **{name: f"{shell}: completes commands, options and ids" for name, shell in _COMPLETIONS.items()},
}


@command("files")
@click.argument("name", required=False, type=click.Choice(list(_FILES)), metavar="[NAME]")
def shipped(invocation: Invocation, name: str | None) -> None:
    """
    List the files that operators need beside the program, or print the one with this NAME: units of systemd, settings,
    users of Redis, alerts.

    users.acl has a user for each kind of process. Redis refuses it until the SHA-256 of each user's password is in it.

    \b
    Examples:
      zsched files
      zsched files zsched.service | sudo tee /etc/systemd/system/zsched.service
      echo 'eval "$(zsched files completion.bash)"' >> ~/.bashrc
      RQ_KEY_PREFIX='{mail}:rq' zsched files users.acl -n mail > users.acl
      sed -i "s/#SHA256-OF-operator /#$(sha256sum < operator.password | cut -d ' ' -f 1) /" users.acl
    """
    if name is None:
        rows = [{"name": each, "about": about} for each, about in _FILES.items()]
        invocation.answer(rows, Table(("NAME", "WHAT IT IS"), _FILES.items()))
    else:
        invocation.answer({"name": name, "text": (text := _text(invocation, name))}, text.removesuffix("\n"))


def _text(invocation: Invocation, name: str) -> str:
    """Return the text of a file."""
    if name == _USERS:
        from zsched.storage.keys import keys_of
        from zsched.storage.rights import acl_file

        return acl_file(keys_of(invocation.settings()))
    if name in _COMPLETIONS:  # the code asks Redis for ids, by the settings in the shell's environment
        from click.shell_completion import get_completion_class

        found = get_completion_class(_COMPLETIONS[name])
        assert found is not None  # each of the shells is known to click
        return found(program, {}, "zsched", _VARIABLE).source()
    in_wheel = resources.files("zsched") / "shipped" / name
    if in_wheel.is_file():
        return in_wheel.read_text("utf-8")
    checkout = Path(__file__).parents[2]
    return next(path for place in ("config", "deploy") for path in (checkout / place).rglob(name)).read_text("utf-8")
