"""
Sources of passwords: files of their own, systemd's credentials (systemd.exec(5), "Credentials"), URLs.

A unit names a credential once and for all, so a blank one, or none, means that there is no password.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from zsched.errors import ConfigError

REDIS_CREDENTIAL = "redis-password"
_CREDENTIALS = "CREDENTIALS_DIRECTORY"


def credential_file(env: Mapping[str, str], name: str) -> str | None:
    """The path of the credential *name*; None without one, or if it is blank."""
    file = Path(env.get(_CREDENTIALS) or os.devnull, name)
    with suppress(OSError):
        return str(file) if file.read_bytes().strip() else None
    return None


def gives_password(url: str) -> bool:
    """Return True if *url*, of one Redis, has a password; a user alone is none."""
    parts = urlsplit(url)
    return bool(parts.password) or "password" in parse_qs(parts.query)


def read_password_file(file: str, place: str) -> str:
    """
    Read *file*, without the end of its line; *place* is where it was named.

    Raises:
        ConfigError: it cannot be read or is empty.
    """
    try:
        password = Path(file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{place}={file!r}: {reason}") from error
    if not password:
        raise ConfigError(f"{place}={file!r}: it is empty; write the password into it")
    return password
