"""What the doctor's tests share: an examination, and what of it is not well."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import redis

from zsched.config import DaemonSettings, RqSettings, Settings
from zsched.doctor.examination import examine
from zsched.doctor.finding import Finding, Verdict
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.rights import Role

KEYS = Keys("default")
UNWELL = (Verdict.WARNING, Verdict.PROBLEM)


def examined(
    url: str,
    *,
    roles: tuple[Role, ...] = (Role.DAEMON,),
    user: str | None = None,
    clock: Any = None,
    daemon: Mapping[str, Any] | None = None,
    rq: Mapping[str, Any] | None = None,
) -> dict[str, list[Finding]]:
    """By check what it found; *daemon* and *rq* are settings of their sections."""
    settings = Settings(daemon=DaemonSettings(**(daemon or {})), rq=RqSettings(**(rq or {})))
    link = Link.from_url(url, 5.0)
    found: dict[str, list[Finding]] = defaultdict(list)
    try:
        for check, finding in examine(settings, link, roles, user, clock):
            found[check].append(finding)
    finally:
        link.pool.disconnect()
    return found


def only(findings: list[Finding], verdict: Verdict) -> Finding:
    """The one finding there is, which must be of that *verdict*."""
    [finding] = findings
    assert verdict is finding.verdict, finding
    return finding


def unwell(found: Mapping[str, list[Finding]]) -> dict[str, list[str]]:
    """What was said by those checks that gave a warning or a problem."""
    said = {check: [one.said for one in findings if one.verdict in UNWELL] for check, findings in found.items()}
    return {check: texts for check, texts in said.items() if texts}


def command_of(finding: Finding) -> list[str]:
    """The command that a remedy has at its end for redis-cli, as a shell would split it."""
    words = shlex.split(finding.remedy[finding.remedy.index("redis-cli ") :])
    return words[next(n for n, word in enumerate(words) if word.isupper()) :]


def report(
    client: redis.Redis, archive: str, *, at: str = "- 0", ago_ms: int = 0, state: str = "following", **about: Any
) -> None:
    """Write what an archiver reported *ago_ms* ago."""
    seconds, micros = client.time()
    told_ms = seconds * 1000 + micros // 1000 - ago_ms
    told = {"host": "box", "path": f"/var/{archive}.db"} | about
    client.hset(KEYS.archivers(), archive, f"{at} {told_ms} {state} {json.dumps(told)}")
