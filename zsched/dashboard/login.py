"""The login: one user and password, from a file, the environment or systemd's credentials, or made for one run."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zsched.config import PASSWORD_VARIABLE, DashboardSettings
from zsched.config.urls import credential_file, read_password_file
from zsched.errors import ConfigError

CREDENTIAL: Final = "dashboard-password"
_MADE_BYTES: Final = 12  # random bytes of a password that is made here: 96 bits cannot be guessed


@dataclass(frozen=True, slots=True)
class Login:
    """The one user. ``was_made``: the password was generated, so it must be shown to the operator."""

    user: str
    password: str = field(repr=False)
    was_made: bool = False

    def admits(self, user: str | None, password: str | None) -> bool:
        """Return True if both are right. The time of the check does not depend on how much of them is right."""
        same = [
            hmac.compare_digest((given or "").encode(), ours.encode())
            for given, ours in ((user, self.user), (password, self.password))
        ]
        return all(same)


def is_private(host: str) -> bool:
    """Return True if only this machine can connect to the address *host*."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def login_for(settings: DashboardSettings, env: Mapping[str, str], host: str) -> Login:
    """
    Return the login of a dashboard that listens at the address *host*.

    The password comes from ``password_file``, or from ZSCHED_DASHBOARD_PASSWORD in *env*, else from systemd's
    credential. Without any of them it is generated if *host* is private.

    Raises:
        ConfigError: no password, and others can connect; two passwords; the file cannot be read or is empty.
    """
    password = _configured(settings, env)
    if password is not None:
        return Login(settings.user, password)
    if not is_private(host):
        remedy = f"name a file in [dashboard] password_file, or set {PASSWORD_VARIABLE}"
        raise ConfigError(f"listen={settings.listen!r}: others can connect, and no password is configured; {remedy}")
    return Login(settings.user, secrets.token_urlsafe(_MADE_BYTES), was_made=True)


def _configured(settings: DashboardSettings, env: Mapping[str, str]) -> str | None:
    file, given = settings.password_file, env.get(PASSWORD_VARIABLE)
    if file is not None and given:
        raise ConfigError(f"[dashboard] password_file={file!r}, {PASSWORD_VARIABLE}: two passwords; take one away")
    if given:
        return given
    file = file or credential_file(env, CREDENTIAL)
    return None if file is None else read_password_file(file, "[dashboard] password_file")
