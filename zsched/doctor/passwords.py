"""A check of files with passwords: other users of this machine must not read them."""

from __future__ import annotations

import shlex
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from zsched.config import Settings, has_password
from zsched.config.sentinels import SentinelUrl, is_sentinel_url
from zsched.core.wording import plural
from zsched.doctor.finding import Finding, fine, skipped, warning
from zsched.doctor.patient import Patient

_READERS: Final = {stat.S_IRGRP: "its group", stat.S_IROTH: "every user of this machine"}
_MOVE: Final = "write the password into a file of its own, [redis] password_file, with mode 600"


def look_at_files(patient: Patient) -> Iterator[Finding]:
    """Look at the modes of password files, and of a configuration file with a password in it."""
    seen, is_fine = 0, True
    for setting, file, remedy in _files(patient.settings, patient.config_file):
        try:
            mode = _mode(Path(file))
        except OSError as error:
            is_fine = False
            yield skipped(f"{setting} {file}: {error.strerror}", "ask as the user who reads it")
            continue
        seen += 1
        readers = [who for bit, who in _READERS.items() if mode & bit]
        if readers:
            is_fine = False
            yield warning(f"{setting} {file} has a password, and {' and '.join(readers)} may read it", remedy)
    if is_fine:
        told = f"nobody but its owner may read {'it' if seen == 1 else 'them'}"
        yield fine(f"{plural(seen, 'file')} with a password: {told}" if seen else "no file with a password is named")


def _files(settings: Settings, config_file: str | None) -> Iterator[tuple[str, str, str]]:
    """Yield the setting that names a file with a password, that file, and what to do if others may read it."""
    url = settings.redis.url
    named = {
        "[redis] password_file": settings.redis.password_file,
        "[redis] sentinel_password_file": _sentinels_file(url),
        "[dashboard] password_file": settings.dashboard.password_file,
    }
    for setting, file in named.items():
        if file is not None:
            yield setting, file, f"chmod 600 {shlex.quote(file)}"
    if config_file is not None and _has_password(Path(config_file)):
        yield "the configuration file", config_file, _MOVE


def _sentinels_file(url: str) -> str | None:
    return SentinelUrl.parse(url).options.get("sentinel_password_file") if is_sentinel_url(url) else None


def _has_password(file: Path) -> bool:
    """Return True if the URL in a configuration file has a password."""
    return has_password(str(tomllib.loads(file.read_text("utf-8")).get("redis", {}).get("url", "")))


def _mode(file: Path) -> int:
    """The mode of *file*, without the rights of those whom its folder keeps out."""
    target = file.resolve(strict=True)
    mode, folder = target.stat().st_mode, target.parent.stat().st_mode
    for enters, reads in ((stat.S_IXGRP, stat.S_IRGRP), (stat.S_IXOTH, stat.S_IROTH)):
        mode &= ~0 if folder & enters else ~reads
    return mode
