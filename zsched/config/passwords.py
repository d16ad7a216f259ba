"""Passwords that stand in files of their own."""

from __future__ import annotations

from pathlib import Path

from zsched.errors import ConfigError


def read_password_file(file: str, place: str) -> str:
    """
    What *file* holds, without the end of its line; *place* is where it was named.

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
