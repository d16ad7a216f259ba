"""The fault campaign in its short form, and its audit with evidence made by hand: a check must be able to fail."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tools.campaign.calls import Call
from tools.campaign.faults import FAULTS, chosen
from tools.campaign.histories import chains_of, completed
from tools.campaign.receipts import Receipt
from tools.campaign.run import Campaign, Plan
from tools.campaign.safeguards import SAFEGUARDS, copy_code
from tools.campaign.verdict import Verdict, judge
from tools.campaign.witnesses import Loss, Place, Window, Witnesses
from zsched.core.entry import FORMAT, Entry, Position
from zsched.core.record import Place as At
from zsched.core.record import Portion, Record

pytestmark = pytest.mark.once

SHORT = ("older-aof-election", "flushall-burst")  # Redis and leader killed, gone back, emptied
DUE_MS = 1_800_000_000_000
DUE_US = DUE_MS * 1000
S = 1_000_000


def run(folder: Path, plan: Plan) -> tuple[Verdict, str]:
    """Return the verdict on a campaign, and all of its messages."""
    said: list[str] = []
    verdict = judge(Campaign(plan, folder, said.append).run())
    return verdict, "\n".join([*said, *verdict.lines()])


def test_a_short_campaign_finds_every_promise_kept(tmp_path: Path) -> None:
    verdict, told = run(tmp_path, Plan(None, 5, chosen(SHORT, clock=False), crowd=1_000))

    assert verdict.is_ok, told


def test_the_campaign_fails_without_the_comparison_in_advance(tmp_path: Path) -> None:
    code = copy_code(tmp_path, "advance")

    verdict, told = run(tmp_path, Plan(None, 5, chosen(SAFEGUARDS["advance"].faults, clock=False), code=code))

    assert verdict.found["rhythm"], told


def test_every_safeguard_line_exists_in_the_code(tmp_path: Path) -> None:
    for name in SAFEGUARDS:
        copy_code(tmp_path / name, name)


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len(FAULTS) == len({fault.name for fault in FAULTS})


# -- witnesses made by hand ---------------------------------------------------------------------------


def entry(seq: int, kind: str, *texts: str | bytes, t_us: int = 0, epoch: int = 1) -> Entry:
    """Return an entry of the log, by default a second before the due time and later by a millisecond per entry."""
    return Entry(
        Position(epoch, seq, t_us or DUE_US - S + seq * 1000),
        kind,
        [text if isinstance(text, bytes) else text.encode() for text in texts],
    )


def term(seq: int, **more: int) -> Entry:
    return entry(seq, "term", "daemon", "d", "server", "s", **more)


def put(seq: int, id: str = "a", **more: int) -> Entry:
    return entry(seq, "put", "lane", "normal", "fields", "0", "rows", "1", id, str(DUE_MS), "data", "x", **more)


def fire(seq: int, *fields: str, late_us: int = 500) -> Entry:
    return entry(seq, "fire", *(fields or ("runs", f"a-{DUE_MS}")), t_us=DUE_US + late_us)


def rule(seq: int) -> Entry:
    shape = ("shapes", "1", "lane", "normal", "schedule", "0", "template", "0")
    words, trigger = f"1 {DUE_MS} {DUE_MS} {DUE_MS - 1000} 5 - - - - d", '{"kind":"every","expr":"1000"}'
    return entry(seq, "put_recurring", *shape, "rows", "1", "r", words, "trigger", trigger, "data", "")


def advance(seq: int, nominal_ms: int, next_ms: int, passed: str = "-") -> Entry:
    words = f"fired {nominal_ms} {next_ms} {next_ms} {passed}"
    return entry(
        seq, "advance", "rows", "1", "r", words, t_us=nominal_ms * 1000 + 500 if nominal_ms >= DUE_MS else DUE_US
    )


def put_back(seq: int, nominal_ms: int) -> Entry:
    """
    Return a restore of the rule, with the next occurrence after *nominal_ms*, and of the run at *nominal_ms*, which had
    been pushed.
    """
    lost = Record("r", str(nominal_ms), At.OPEN, "normal", None, ())
    texts = [*Portion([rule_before(nominal_ms + 1000), lost]).texts, "format", str(FORMAT)]
    return entry(seq, "restore", "reason", "lost", "archive", "a", *texts, t_us=nominal_ms * 1000 + 500_000)


def rule_before(next_ms: int) -> Record:
    """Return the rule, with its next occurrence at *next_ms*."""
    rule = [b"trigger", b'{"kind":"every","expr":"1000"}', b"anchor", b"%d" % (DUE_MS - 1000)]
    return Record("r", "", At.DUE, "normal", next_ms, (), rule, next_ms)


def occurrence(seq: int) -> Entry:
    """Return an occurrence of the rule; the first has the number 3."""
    return advance(seq, DUE_MS + 1000 * (seq - 3), DUE_MS + 1000 * (seq - 2))


def found_again(before: int) -> list[Entry]:
    """Return the rule as an archive read it in Redis, before the occurrence of that number, and another schedule."""
    next_ms = DUE_MS + 1000 * (before - 3)
    other = Record("other", "", At.DUE, "normal", DUE_MS, ())
    return [entry(0, "scan", *Portion([one]).texts, t_us=next_ms * 1000 - 1) for one in (other, rule_before(next_ms))]


ASKED = Call("put", "a", DUE_US - S + 1500, DUE_US - S + 2500, run_id=f"a-{DUE_MS}", due_ms=DUE_MS)
RULED = Call("rule", "r", DUE_US - 2 * S, DUE_US - 2 * S + 900, every_ms=1000)
RECEIVED = Receipt(f"a-{DUE_MS}", DUE_US + 3000, 77)
END_US = DUE_US + 60 * S
SOON_US = DUE_US - S // 2  # half a second after it was asked for


def seen(log: list[Entry], **more: object) -> Witnesses:
    """Return evidence of one schedule that was put, pushed and received, unless *more* says otherwise."""
    given = {"calls": [ASKED], "receipts": [RECEIVED], "histories": [log], "log": log, "ended_us": END_US} | more
    return Witnesses(**given)  # type: ignore[arg-type]


def good() -> Witnesses:
    return seen([term(1), put(2), fire(3)])


def lost_at(at_us: int, *archived: Entry, **more: object) -> Witnesses:
    """Return evidence of a loss of all data without a restore; *archived* is all that archives have."""
    losses = [Loss("f", at_us, False)]
    return seen([term(1, t_us=at_us)], receipts=[], histories=[[term(1), *archived]], losses=losses, **more)


def again(*fields: str) -> Witnesses:
    """
    Return evidence of a run that was pushed and received; then Redis went back to before that and pushed it again, with
    *fields*.
    """
    before, after = [term(1), put(2), fire(3)], [term(1), put(2), fire(3, *fields, late_us=5 * S)]
    twice = [RECEIVED, Receipt(RECEIVED.run_id, DUE_US + 6 * S, 78)]
    return seen(after, histories=[[*before, after[2]]], receipts=twice, losses=[Loss("f", DUE_US + S, True)])


def resumed_in_a_repair(*archived: Entry) -> Witnesses:
    """
    Return evidence of a schedule that was paused, lost, resumed before the restore, and paused after it. *archived*:
    the log after the pause.
    """
    paused_us, lost_us = DUE_US - 4 * S, DUE_US - 3 * S
    back_us = lost_us + S
    return seen(
        [
            term(1, t_us=DUE_US - 5 * S),
            entry(2, "pause", "note", "", "rows", "1", "a", f"low {DUE_MS}", t_us=paused_us),
            *archived,
        ],
        receipts=[],
        calls=[
            Call("pause", "a", paused_us, paused_us + 9),
            Call("resume", "a", back_us - 9, back_us - 5),
            ASKED,
        ],
        losses=[Loss("f", lost_us, True)],
        windows=[Window("f", lost_us - 9, back_us)],
        places=[Place("a", "paused", DUE_MS), Place("a", "waiting", DUE_MS)],
    )


RUN = f"a-{DUE_MS}"
RULE = [term(1), rule(2)]
FAILING: dict[str, tuple[str, Callable[[], Witnesses]]] = {
    "not received": ("lost", lambda: seen([term(1), put(2)], receipts=[])),
    "pushed, and not received": ("lost", lambda: seen([term(1), put(2), fire(3)], receipts=[])),
    "acknowledged long before it was lost": ("lost", lambda: lost_at(DUE_US + 5 * S)),
    "known to an archive": ("lost", lambda: lost_at(SOON_US, put(2))),
    "durable, and lost at once": ("lost", lambda: lost_at(SOON_US, calls=[replace(ASKED, is_durable=True)])),
    "paused, though a log has its resume": (
        "lost",
        lambda: resumed_in_a_repair(
            entry(3, "resume", "rows", "1", "a", f"low {DUE_MS}", t_us=DUE_US - 2 * S - 7), put(4)
        ),
    ),
    "a rule that is nowhere": ("lost", lambda: seen(RULE, calls=[RULED], receipts=[])),
    "cancelled, and fired": (
        "cancelled and back",
        lambda: seen(good().log, calls=[ASKED, Call("cancel", "a", DUE_US - S, DUE_US - S + 9, word="cancelled")]),
    ),
    "twice in one history": (
        "doubled", lambda: seen([term(1), put(2), fire(3), fire(4, "runs", RUN, "uncertain", RUN)]),
    ),
    "again, unmarked": ("doubled", lambda: again("runs", RUN)),
    "again, though it says skip": (
        "doubled",
        lambda: replace(again("runs", RUN, "uncertain", RUN), calls=[replace(ASKED, is_skip=True)]),
    ),
    "received twice": ("doubled", lambda: seen(good().log, receipts=[RECEIVED, RECEIVED])),
    "received, and in no log": ("unaccounted", lambda: seen([term(1), put(2)])),
    "pushed early": ("early", lambda: seen([term(1), put(2), fire(3, late_us=-1)])),
    "received early": ("early", lambda: seen(good().log, receipts=[Receipt(RUN, DUE_US - 1, 77)])),
    "late": ("late", lambda: seen([term(1), put(2), fire(3, late_us=2 * S)])),
    "a hole in the log": ("the log", lambda: seen([term(1), put(2), fire(4)])),
    "an epoch that falls": ("the log", lambda: seen([term(1, epoch=2), put(2), fire(3)])),
    "an entry that nobody can read": ("the log", lambda: seen([*good().log, entry(4, "news", t_us=END_US)])),
    "counted further than the log": ("the log", lambda: seen(good().log, seq=4)),
    "two places": (
        "places",
        lambda: seen(RULE, places=[Place("r", "recurring", None), Place("r", "due", 1), Place("r", "paused", 1)]),
    ),
    "no place": ("places", lambda: seen(RULE, places=[Place("r", "recurring", None)])),
    "a job without a place": ("places", lambda: seen(good().log, places=[Place("a", "waiting", DUE_MS)])),
    "left behind": (
        "places", lambda: seen(good().log, places=[Place("a", "due", DUE_MS), Place("a", "waiting", DUE_MS)]),
    ),
    "not a time of the rule": ("rhythm", lambda: seen([*RULE, advance(3, DUE_MS + 7, DUE_MS + 1007)])),
    "an occurrence twice": (
        "rhythm", lambda: seen([*RULE, advance(3, DUE_MS, DUE_MS + 1000), advance(4, DUE_MS, DUE_MS + 1000)]),
    ),
    "an occurrence left out": (
        "rhythm",
        lambda: seen([*RULE, advance(3, DUE_MS, DUE_MS + 1000), advance(4, DUE_MS + 2000, DUE_MS + 3000)]),
    ),
    "a daemon that died": ("said", lambda: seen(good().log, said=["daemon one ended by itself"])),
    "a client that crashed": ("said", lambda: seen(good().log, calls=[ASKED, Call("put", "b", 1, 2, "crashed")])),
}  # fmt: skip
FINE: dict[str, Callable[[], Witnesses]] = {
    "put, pushed, received": good,
    "in the archive's lag": lambda: lost_at(SOON_US),
    "moved in the archive's lag": lambda: lost_at(
        SOON_US, put(2), calls=[ASKED, replace(ASKED, run_id=f"a-{DUE_MS + 1}", due_ms=DUE_MS + 1)]
    ),
    "again, and marked": lambda: again("runs", RUN, "uncertain", RUN),
    "skipped": lambda: seen([term(1), put(2), fire(3, "skipped", RUN)], receipts=[]),
    "brought back in RQ's queue": lambda: seen(
        good().log, receipts=[RECEIVED, Receipt(RUN, DUE_US + 9 * S, 78)], losses=[Loss("f", DUE_US + S, True)]
    ),
    "late while a fault was at work": lambda: seen(
        [term(1), put(2), fire(3, late_us=2 * S)], windows=[Window("f", DUE_US - S, DUE_US + 3 * S)]
    ),
    "a call that nobody answered": lambda: seen([term(1)], calls=[replace(ASKED, outcome="unknown")], receipts=[]),
    "a rule that came back in the archive's lag, and fires on": lambda: seen(
        RULE,
        receipts=[],
        calls=[RULED, Call("cancel", "r", DUE_US - S, DUE_US - S + 9, word="cancelled")],
        losses=[Loss("f", DUE_US - S + 99, False)],
        places=[Place("r", "recurring", None), Place("r", "due", DUE_MS)],
    ),
    "resumed before its pause was back": lambda: resumed_in_a_repair(put(3)),
    "put while its resume was lost": lambda: seen(
        [term(1), put(2)],
        receipts=[],
        calls=[
            Call("pause", "a", DUE_US - 3 * S, DUE_US - 3 * S + 9),
            Call("resume", "a", DUE_US - 2 * S, DUE_US - 2 * S + 9),
            ASKED,
        ],
        losses=[Loss("f", ASKED.began_us - 9, True)],
        windows=[Window("f", ASKED.began_us - S // 2, DUE_US)],
        places=[Place("a", "paused", DUE_MS), Place("a", "waiting", DUE_MS)],
    ),
    "waits for its time": lambda: seen(
        [term(1), put(2)],
        receipts=[],
        ended_us=DUE_US - 1,
        places=[Place("a", "due", DUE_MS), Place("a", "waiting", DUE_MS)],
    ),
    "an archive that began anew goes on with what it found": lambda: seen(
        [put_back(7, DUE_MS + 3000), advance(8, DUE_MS + 4000, DUE_MS + 5000)],
        histories=[
            [*RULE, occurrence(3), *found_again(6), occurrence(6)],
            [*found_again(4), occurrence(4), occurrence(5), occurrence(6)],
        ],
        calls=[],
        receipts=[],
    ),
    "pushed again, and the archive that knew it does not know the rule": lambda: seen(
        [
            *RULE,
            advance(3, DUE_MS, DUE_MS + 1000),
            put_back(4, DUE_MS + 1000),
            advance(5, DUE_MS + 2000, DUE_MS + 3000),
        ],
        receipts=[],
        calls=[],
    ),
    "coalesced": lambda: seen(
        [
            *RULE,
            advance(3, DUE_MS, DUE_MS + 1000),
            advance(4, DUE_MS + 3000, DUE_MS + 4000, f"coalesced:{DUE_MS + 1000}:{DUE_MS + 2000}:2"),
        ],
        receipts=[],
        calls=[],
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_the_audit_finds_every_broken_promise(name: str) -> None:
    check, witnesses = FAILING[name]

    verdict = judge(witnesses())

    assert verdict.found[check], "\n".join(verdict.lines())
    assert not verdict.is_ok


@pytest.mark.parametrize("name", FINE)
def test_the_audit_accepts_a_history_that_keeps_every_promise(name: str) -> None:
    verdict = judge(FINE[name]())

    assert verdict.is_ok, "\n".join(verdict.lines())


@pytest.mark.parametrize(("at_us", "lag"), [(SOON_US, "498 ms"), (ASKED.began_us, None)])
def test_the_lag_of_a_lost_put_is_measured_to_the_loss_that_excuses_it(at_us: int, lag: str | None) -> None:
    witnesses = lost_at(at_us)
    witnesses.losses.append(Loss("f", SOON_US + 60 * S, False))

    verdict = judge(witnesses)

    assert verdict.is_ok
    assert lag == verdict.numbers.get("longest lag that lost a put")


def test_a_rolled_back_history_is_two_chains_with_a_common_beginning() -> None:
    first, second, lost, new = term(1), put(2), fire(3), fire(3, late_us=S)

    assert [[first, second, lost], [first, second, new]] == chains_of([first, second, lost, new])
    assert [[first, second], [term(1, t_us=DUE_US)]] == chains_of([first, second, term(1, t_us=DUE_US)])


def test_the_history_of_an_archive_that_was_left_behind_begins_as_the_others_do() -> None:
    first, second, third = term(1), put(2), fire(3)

    assert [[first, second, third]] * 2 == completed([[first, second, third], [third]])
    assert [[third]] == completed([[third]])
