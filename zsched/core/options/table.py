"""
The table of options: one entry per option of ``client.schedule`` and similar calls.

An entry is a key of a TypedDict. Its type is for editors and mypy. Its ``Option`` has the help text, the form (which
checks, writes and shows values), the place in Redis, names of other schedulers, and the group: everyday, or the
heading under which pages, help and forms have it. These parts use the entries:

    calls             ``Unpack[ScheduleOptions]`` and similar types, and the names that each call takes
    tasks             ``tasks/task_call.pyi``, which ``make pages`` writes: a task's calls take other keywords, too
    checks            ``core.options.define``: from keyword arguments to a ``Definition``
    Redis and back    ``core.options.checked``: fields, labels and flag letters, and their values in JSON
    the command line  ``cli.puts``: options of ``add`` and ``set``, their help, options that ``--unset`` can clear
    files             ``files.checking``: keys, times, keys in JSON
    HTTP, console     ``web.schemas`` and ``web.console.edit``: bodies of requests, and the form that edits a schedule

So a new option is an entry here and, if it is stored, a field of ``CheckedOptions``. ``storage.rqjob`` encodes RQ's own
options.

The TypedDicts are the parts of the calls' types, in the order of JSON. This module has no
``from __future__ import annotations``: the entries are values, not texts to be evaluated later.
"""

from collections.abc import Callable
from datetime import datetime
from types import NoneType
from typing import Annotated, Any, Final, Required, TypedDict, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

from zsched.core.options import choices, forms
from zsched.core.options.forms import Form, Group, Option, Stored, ValueType
from zsched.core.triggers.spec import Fold, Gap, OnExcluded, TriggerKind
from zsched.core.triggers.trigger import KindOptions, kind_named

_OF_RULES: Final = "only for recurring schedules"
_AT_PUT: Final = "of a one-shot only when it is put"  # its time is moved or refused then; it is not stored


# An entry is two or three lines: its type, its help, and the rest.
# fmt: off


class _OnceOptions(TypedDict, total=False):
    """Options for the time of a run that runs once."""

    at: Annotated[datetime | None, Option(
        "Once, at this time: local in --tz, or with an offset or Z.", forms.TIME, Stored.RULE,
        elsewhere="eta run_date run_at when scheduled_time datetime")]
    after: Annotated[forms.DurationValue | None, Option(
        "Once, this long from now: seconds, or 5m, 1h30m, 2d, 500ms.", forms.duration_of(), Stored.RULE,
        elsewhere="countdown delay time_delta")]


class RuleOptions(KindOptions, total=False):
    """
    Options for the times of a rule: the options of ``preview``. The registry of trigger kinds has the kinds' options.
    """

    tz: Annotated[str | ZoneInfo | None, Option(
        "IANA zone of local times and rules, such as Asia/Seoul; default UTC.", forms.ZONE, Stored.LABEL, "tz",
        elsewhere="timezone")]
    starts: Annotated[datetime | None, Option(
        "The first possible time of a rule.", forms.TIME, Stored.RULE, once=_OF_RULES, elsewhere="start_date",
        group=Group.TIME)]
    ends: Annotated[datetime | None, Option(
        "The last possible time of a rule.", forms.TIME, Stored.RULE, once=_OF_RULES, elsewhere="end_date",
        group=Group.TIME)]
    count: Annotated[int | None, Option(
        "The total number of a rule's occurrences.", forms.count_of("occurrences"), Stored.RULE,
        once=_OF_RULES, elsewhere="repeat", group=Group.TIME)]
    gap: Annotated[forms.GapWord | None, Option(
        "Policy for a local time skipped when clocks go forward.", forms.word_of(Gap), Stored.RULE, group=Group.TIME)]
    fold: Annotated[forms.FoldWord | None, Option(
        "Policy for a local time repeated when clocks go back.", forms.word_of(Fold), Stored.RULE, group=Group.TIME)]


    exclude: Annotated[list[str] | tuple[str, ...] | str | None, Option(
        'Times without runs: "Sat,Sun", "22:00-07:00", "2026-12-24..2027-01-01", "12-25", or a calendar.',
        forms.EXCLUSIONS, Stored.RULE, once=_AT_PUT, elsewhere="exdate blackout skip_dates", group=Group.TIME)]
    on_excluded: Annotated[forms.OnExcludedWord | None, Option(
        "Policy for an excluded time: leave the run out, or run when that ends.", forms.word_of(OnExcluded),
        Stored.RULE, once=_AT_PUT, group=Group.TIME)]


class _CallOptions(TypedDict, total=False):
    """The function's arguments."""

    args: Annotated[tuple[Any, ...] | list[Any] | None, Option(
        "Positional arguments, a JSON array.", forms.ARRAY, Stored.DATA, elsewhere="params")]
    kwargs: Annotated[dict[str, Any] | None, Option("Named arguments, a JSON object.", forms.OBJECT, Stored.DATA)]


class _PlaceOptions(TypedDict, total=False):
    """The run's queue, and the policies for runs that may have run or were lost."""

    queue: Annotated[str, Option(
        'The RQ queue; default "default".', forms.QUEUE, Stored.PLACE, elsewhere="queue_name")]
    priority: Annotated[choices.PriorityWord, Option(
        "Due runs of a higher priority are pushed first. Order within a queue does not change.",
        forms.word_of(choices.Priority), Stored.PLACE, group=Group.PLACE)]
    at_front: Annotated[bool, Option(
        "Push to the front of its queue; default the back.", forms.BOOLEAN, Stored.FLAG, letter="f", off="--at-back",
        group=Group.PLACE)]
    on_uncertain: Annotated[choices.OnUncertainWord, Option(
        "Policy when a lost Redis may have pushed the run.", forms.word_of(choices.OnUncertain), Stored.FLAG,
        letter="s", group=Group.CHANGED)]
    on_lost: Annotated[choices.OnLostWord | None, Option(
        "Policy when the worker dies: retry while --retry allows, or lost.", forms.word_of(choices.OnLost), Stored.JOB,
        "zs_on_lost", group=Group.CHANGED)]


class _ScheduleOnly(TypedDict, total=False):
    """Options that a run at once cannot have."""

    pause_after_failures: Annotated[int | None, Option(  # scripts count exactly up to far more
        "Pause a rule after this many failed runs in a row.", forms.count_of("failures in a row", 1_000_000),
        Stored.OWN, "pause_after", once="a one-shot has one run, and no failures in a row", group=Group.CHANGED)]
    overlap: Annotated[choices.OverlapWord | None, Option(
        "Policy while the previous run is not over; default skip.", forms.word_of(choices.Overlap), Stored.POLICY,
        "overlap", elsewhere="max_instances", group=Group.LATE)]
    overlap_limit: Annotated[int | None, Option(  # the script that adds one may have to look at all of them
        "The most runs that wait with --overlap queue; default 100.", forms.count_of("runs", 1000), Stored.POLICY,
        "overlap_limit", group=Group.LATE)]
    catch_up: Annotated[choices.CatchUpWord | None, Option(
        "Policy for a rule's missed times; default latest.", forms.word_of(choices.CatchUp), Stored.POLICY, "catch_up",
        elsewhere="coalesce", group=Group.LATE)]
    catch_up_window: Annotated[forms.DurationValue | None, Option(
        "Ignore occurrences older than this; default 1d.", forms.duration_of(), Stored.POLICY, "catch_up_window_ms",
        elsewhere="misfire_grace_time", group=Group.LATE)]
    catch_up_limit: Annotated[int | None, Option(  # each costs a look
        "The most runs of --catch-up all; default 100.", forms.count_of("runs", 10_000), Stored.POLICY,
        "catch_up_limit", group=Group.LATE)]
    jitter: Annotated[forms.DurationValue | None, Option(
        "Delay each run by up to this, spread over the ids.", forms.duration_of(), Stored.JOB, "zs_jitter",
        attribute="jitter_ms", group=Group.TIME)]


class _RunOptions(TypedDict, total=False):
    """Options of the run itself, and its labels."""

    expires_after: Annotated[forms.DurationValue | None, Option(
        "Drop a run that has not started this long after its due time.", forms.duration_of(least_ms=1), Stored.JOB,
        "zs_expires", letter="e", attribute="expires_ms", elsewhere="ttl")]
    done_by: Annotated[forms.DurationValue | None, Option(
        "Tell if it has not succeeded by then: a local time such as 06:00, or a duration after its time.",
        forms.DONE_BY, Stored.JOB, "zs_done_by", elsewhere="deadline sla", group=Group.LATE)]
    urgency: Annotated[str | None, Option(
        "A preset: asap, time_sensitive, digest, or a name in [urgency].", Form("NAME"), attribute="-",
        group=Group.PLACE)]
    timeout: Annotated[forms.DurationValue | None, Option(
        "Time limit of a run: 5m, 1h, or -1 for none; default 180 s, RQ's own.", forms.RQ_SECONDS, Stored.RQ, "timeout",
        attribute="timeout_s", elsewhere="job_timeout")]
    result_ttl: Annotated[forms.DurationValue | None, Option(
        "How long RQ keeps a result; 0: not at all, -1: forever.", forms.RQ_SECONDS, Stored.RQ, "result_ttl",
        attribute="result_ttl_s", group=Group.CHANGED)]
    failure_ttl: Annotated[forms.DurationValue | None, Option(
        "How long RQ keeps a failed run; 0: not at all, -1: forever.", forms.RQ_SECONDS, Stored.RQ, "failure_ttl",
        attribute="failure_ttl_s", group=Group.CHANGED)]
    retry: Annotated[forms.RetryValue | None, Option(
        'How often RQ retries a failed run. Python, files and HTTP also take {"max": 3, "interval": [60, 300]}, in s.',
        forms.RETRIES, Stored.RQ, "retries_left", attribute="retries")]
    rate_limit: Annotated[forms.RateLimitValue | None, Option(
        "RQ 3's limit: at most N runs and jobs of this key are queued or running at once.", forms.RATE_LIMIT,
        Stored.JOB, "rate_limit_key rate_limit_concurrency", letter="l", group=Group.PLACE)]
    meta: Annotated[dict[str, Any] | None, Option(
        "RQ's job.meta, a JSON object.", forms.OBJECT, Stored.RQ, attribute="-", group=Group.PLACE)]
    on_success: Annotated[forms.CallbackValue | None, Option(
        "Dotted path of RQ's callback.", forms.CALLBACK, Stored.RQ, attribute="-", elsewhere="depends_on",
        group=Group.CHANGED)]
    on_failure: Annotated[forms.CallbackValue | None, Option(
        "Dotted path of RQ's callback.", forms.CALLBACK, Stored.RQ, attribute="-", group=Group.CHANGED)]
    name: Annotated[str | None, Option(
        "A name for people; it may change.", forms.LINE, Stored.LABEL, "name", group=Group.PLACE)]
    description: Annotated[str | None, Option(
        "One line for people.", forms.LINE, Stored.RQ, "description", group=Group.PLACE)]
    tags: Annotated[list[str] | tuple[str, ...] | set[str] | frozenset[str], Option(
        "A label to search for.", forms.TAGS, Stored.LABEL, "tags", group=Group.PLACE)]
    owner: Annotated[str | None, Option(
        "The program, file, team or customer that it belongs to.", forms.LINE, Stored.LABEL, "owner",
        elsewhere="created_by managed_by", group=Group.PLACE)]
    durable: Annotated[bool, Option(
        "Return only when an archive has the change on its disk.", forms.BOOLEAN, group=Group.CHANGED)]


class _IdOptions(TypedDict, total=False):
    """Options that an update cannot change."""

    id: Annotated[str | None, Option(
        "The same id is the same schedule; default: a random one.", forms.SCHEDULE_ID, elsewhere="job_id")]
    if_exists: Annotated[choices.IfExistsWord, Option(
        "What to do when the id is taken; default replace.", forms.word_of(choices.IfExists), group=Group.CHANGED)]


class _UniqueOptions(TypedDict, total=False):
    """Options of a run at once alone."""

    unique_for: Annotated[forms.DurationValue | None, Option(
        "With an id and if_exists keep or error: how long the id keeps its run; default 1d.",
        forms.duration_of(least_ms=1), elsewhere="period deduplication", group=Group.CHANGED)]


class _TimedOptions(_OnceOptions, RuleOptions, _CallOptions, _PlaceOptions, _ScheduleOnly, _RunOptions, total=False):
    """All options that an update can change; the last ones are conditions of a change."""

    allow_past: Annotated[bool, Option(
        "Accept a time that has passed: it runs at once.", forms.BOOLEAN, group=Group.TIME)]
    if_version: Annotated[str | None, Option(
        "Change it only if it has this version (show); else nothing is written.", forms.VERSION, group=Group.CHANGED)]


class ScheduleOptions(_IdOptions, _TimedOptions, total=False):
    """Options of ``client.schedule``: all of them. ``pause`` and ``resume`` are for later changes of ``enabled``."""

    enabled: Annotated[bool | None, Option(
        "Fire or be paused; default: unchanged, and a new one fires.", forms.BOOLEAN, off="--disabled",
        elsewhere="paused disabled", group=Group.CHANGED)]
# fmt: on


class EnqueueOptions(_PlaceOptions, _RunOptions, _IdOptions, _UniqueOptions, total=False):
    """Options of ``client.enqueue``, besides the call."""


class ScheduleRow(ScheduleOptions, total=False):
    """A row for ``client.schedule_many``: a function, and options."""

    func: Required[str | Callable[..., Any]]


class UpdateOptions(_TimedOptions, total=False):
    """Options that ``client.update`` changes."""

    func: str | Callable[..., Any]


def _options_of(keys: Any) -> dict[str, Option]:
    """Return the options of a TypedDict, by name, in its order."""
    options: dict[str, Option] = {}
    for name, hint in get_type_hints(keys, include_extras=True).items():
        is_kind = get_origin(hint) is not Annotated
        type_, option = (hint, _option_of_kind(kind_named(name))) if is_kind else get_args(hint)
        options[name] = option.named(name, is_optional=NoneType in get_args(type_))
    return options


def _option_of_kind(kind: TriggerKind) -> Option:
    """Return the option of a trigger kind, from the kind's own definition."""
    form = forms.duration_of(metavar=kind.metavar) if kind.is_duration else Form(kind.metavar)
    group = Group.EVERYDAY if kind.is_everyday else Group.TIME
    return Option(kind.help, form, Stored.RULE, elsewhere=kind.elsewhere, group=group)


OPTIONS: Final = _options_of(ScheduleOptions)
ONLY_ENQUEUE: Final = _options_of(_UniqueOptions)
FOR_ENQUEUE: Final = frozenset({*EnqueueOptions.__annotations__, *_CallOptions.__annotations__})
FOR_UPDATE: Final = frozenset(_TimedOptions.__annotations__)
ELSEWHERE: Final = {
    theirs: name for name, option in (OPTIONS | ONLY_ENQUEUE).items() for theirs in option.elsewhere.split()
}


def options_taking(*types: ValueType) -> tuple[str, ...]:
    """Return the names of the options whose values are of one of these *types*."""
    return tuple(name for name, option in OPTIONS.items() if option.form.value_type in types)
