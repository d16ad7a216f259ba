"""Helpers of the doctor's tests: an examination and its findings that are not ok."""

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import redis

from tests.integration import standing
from tests.waiting import WITHIN_S
from zsched.config.settings import DaemonSettings, RqSettings, Settings, WebSettings
from zsched.health.doctor import examine
from zsched.health.facts import Finding, Severity
from zsched.storage.connection import Link
from zsched.storage.keys import Keys, keys_of
from zsched.storage.rights import Role

KEYS = Keys("default")
UNWELL = (Severity.WARNING, Severity.PROBLEM)


def examined(
    url: str,
    *,
    roles: tuple[Role, ...] = (Role.DAEMON,),
    user: str | None = None,
    clock: Any = None,
    daemon: Mapping[str, Any] | None = None,
    rq: Mapping[str, Any] | None = None,
    web: Mapping[str, Any] | None = None,
    namespace: str = "default",
) -> dict[str, list[Finding]]:
    """Return the findings by check; *daemon*, *rq* and *web* are settings of their sections."""
    settings = Settings(
        namespace=namespace,
        daemon=DaemonSettings(**(daemon or {})),
        rq=RqSettings(**(rq or {})),
        web=WebSettings(**(web or {})),
    )
    link = Link.from_url(url, WITHIN_S, keys=keys_of(settings))
    found: dict[str, list[Finding]] = defaultdict(list)
    try:
        for finding in examine(settings, link, roles, user, clock):
            found[finding.group].append(finding)
    finally:
        link.pool.disconnect()
    return found


class Case(NamedTuple):
    """
    A change of a sound Redis, and what the doctor then finds: the only finding of a check, "…" for any text. *asked*:
    as in ``examined``.
    """

    given: Callable[[redis.Redis], object]
    check: str
    severity: Severity
    text: str
    remedy: str = "…"
    asked: Mapping[str, Any] = MappingProxyType({})


def found_as(case: Case, url: str, sound: redis.Redis) -> None:
    """Check the finding of *case*."""
    case.given(sound)
    finding = only(examined(url, **case.asked)[case.check], case.severity)
    for expected, told in ((case.text, finding.text), (case.remedy, finding.remedy)):
        assert re.fullmatch(".*".join(map(re.escape, expected.split("…"))), told, re.DOTALL), (expected, told)


def only(findings: list[Finding], severity: Severity) -> Finding:
    """Return the only finding, which must be of that *severity*."""
    [finding] = findings
    assert severity is finding.severity, finding
    return finding


def unwell(found: Mapping[str, list[Finding]]) -> dict[str, list[str]]:
    """Return the texts of warnings and problems by check."""
    said = {check: [one.text for one in findings if one.severity in UNWELL] for check, findings in found.items()}
    return {check: texts for check, texts in said.items() if texts}


def command_of(finding: Finding) -> list[str]:
    """Return the redis-cli command at the end of a remedy, split like by a shell."""
    words = shlex.split(finding.remedy[finding.remedy.index("redis-cli ") :])
    return words[next(n for n, word in enumerate(words) if word.isupper()) :]


def report(client: redis.Redis, archive: str, at: str = "- 0", **about: Any) -> None:
    """Write the report of an archiver that has nothing yet, or is *at* an entry."""
    standing.report(client, archive, at, **about)
