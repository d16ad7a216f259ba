"""The result of the audit for people: numbers and examples."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.campaign.checks import CHECKS, Audit, percentile
from tools.campaign.late import out_of_time
from tools.campaign.queued import out_of_turn
from tools.campaign.rhythms import fired_while_closed, out_of_rhythm
from tools.campaign.witnesses import Witnesses
from zsched.core.occurrences.outcomes import What

_EXAMPLES = 10
_MS = 1000


@dataclass
class Verdict:
    """``found``: the violations per check; an empty dict means success."""

    found: dict[str, list[str]] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        """Return True if every promise was kept."""
        return not any(self.found.values())

    def lines(self) -> Iterator[str]:
        """Yield the lines of the summary."""
        width = max(map(len, self.numbers), default=0)
        for name, value in self.numbers.items():
            yield f"{name:<{width}}  {value}"
        for check, findings in self.found.items():
            if findings:
                yield f"\n{check}: {len(findings)}"
                yield from (f"  {finding}" for finding in findings[:_EXAMPLES])
        yield "\nok" if self.is_ok else "\nFAILED"


OWN = {"rhythm": out_of_rhythm, "closed": fired_while_closed, "turns": out_of_turn, "deadlines": out_of_time}


def judge(witnesses: Witnesses) -> Verdict:
    """Run every check."""
    audit, verdict = Audit(witnesses), Verdict()
    for name, check in (CHECKS | OWN).items():
        verdict.found[name] = list(check(audit))
    verdict.numbers = dict(_numbers(audit, verdict))
    return verdict


def _numbers(audit: Audit, verdict: Verdict) -> Iterator[tuple[str, str]]:
    witnesses, histories = audit.witnesses, audit.histories
    pushes = [push for each in histories.pushes.values() for push in each]
    yield "calls", _counted(Counter(call.outcome for call in witnesses.calls))
    scheduled = [call for call in witnesses.calls if call.verb in ("put", "rule") and call.outcome == "done"]
    yield "schedules put", str(len({call.id for call in scheduled}))
    yield "runs fired", f"{len(histories.pushes)} in {len(pushes)} pushes, of {len(histories.entries)} log entries"
    yield "receipts", str(len(witnesses.receipts))
    yield "faults", _counted(Counter(window.fault for window in witnesses.windows))
    yield "histories lost", str(len(witnesses.losses))
    moved = sum(entry.kind == "replan" for entry in histories.entries.values())
    left_out = Counter(change.what for each in histories.changes.values() for change in each)
    yield "excluded, skipped by hand", f"{left_out[What.EXCLUDED]} ranges, {moved} moves; {left_out[What.SKIP_ASKED]}"
    yield "deadlines missed", str(left_out[What.DEADLINE_MISSED])
    yield "lost", str(len(verdict.found["lost"]))
    yield "doubled", str(len(verdict.found["doubled"]))
    yield "uncertain", str(sum(push.is_uncertain for push in pushes))
    yield "early", str(len(verdict.found["early"]))
    yield "lateness, no fault at work", _times(audit.late_us)
    yield "lateness, all", _times(audit.all_late_us)
    for what, number in sorted(audit.tolerated.items()):
        yield what, str(number)
    if audit.lag_us:
        yield "longest lag that lost a put", f"{audit.lag_us / _MS:.0f} ms"


def _times(values: list[int]) -> str:
    p50, p99, most = percentile(values, 50) / _MS, percentile(values, 99) / _MS, max(values, default=0) / _MS
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {most:.0f} ms, of {len(values)}"


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counter.most_common()) or "none"
