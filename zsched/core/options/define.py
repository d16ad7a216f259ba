"""
From the keyword arguments of ``client.schedule`` to a checked ``Definition``, with its ``Policy`` and its urgency.

Every refusal names the option, the value and the remedy. The encoder in ``storage.rqjob`` checks RQ's options (timeout,
retry, callbacks, the payload itself); ``core.triggers`` checks the trigger's text. Policies of a recurring schedule are
checked one by one, and for contradictions.

An urgency is a named bundle of options, for a kind of message. Options of the call override it. Presets are changed or
added by ``[urgency.<name>]`` in the configuration for the command line, and by ``Client(urgencies=…)`` in a program.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, Final, cast

from zsched.core.clock import LAST_MS, from_ms
from zsched.core.model import After, At, Definition, Now, When
from zsched.core.occurrences.policy import CONTRADICTIONS, USUAL, Policy
from zsched.core.options.choices import IfExists
from zsched.core.options.forms import Stored
from zsched.core.options.table import ELSEWHERE, FOR_ENQUEUE, ONLY_ENQUEUE, OPTIONS, RuleOptions
from zsched.core.triggers.exclusions import exclusions_of, is_name
from zsched.core.triggers.spec import NO_CALENDARS, Calendars, Fold, Gap, OnExcluded, TriggerSpec
from zsched.core.triggers.trigger import GIVE_A_RULE, RULES, build, kind_named
from zsched.core.triggers.zones import instant_ms, local_offset_s, zone
from zsched.core.wording import duration_text, nearest
from zsched.errors import NOT_GIVEN, InvalidSchedule, show

TRIGGERS = ("at", "after", *RULES)
NO_TRIGGER: Final = "trigger"  # the field of the error for a schedule without a time

_RULE = ("starts", "ends", "count", "exclude", "on_excluded")

SCHEDULE_OPTIONS = frozenset(OPTIONS)

# Options that are checked by triggers, the payload's encoder and ``expanded``.
_CHECKED_ELSEWHERE = (Stored.RULE, Stored.DATA)
_CHECKED = {
    name: option for name, option in OPTIONS.items() if option.stored not in _CHECKED_ELSEWHERE and name != "urgency"
}
_SAMPLE: Final = 12  # gaps between occurrences that are checked
_HARMLESS: Final = {  # allowed for a one-shot: the defaults of the signature
    "catch_up_window": USUAL.catch_up_window_ms / 1000,
    "catch_up_limit": USUAL.catch_up_limit,
}
Presets = Mapping[str, Mapping[str, Any]]

UNIQUE_S: Final = 86_400  # the default of ``unique_for``
PRESET_OPTIONS: Final = ("priority", "at_front", "expires_after", "jitter")  # options that a preset may have
PRESETS: Final[Presets] = {
    "asap": {"priority": "high", "at_front": True},
    "time_sensitive": {"priority": "high", "expires_after": 30 * 60},
    "digest": {"priority": "low", "expires_after": 24 * 3600, "jitter": 10 * 60},
}


def define(
    func: Any, options: Mapping[str, Any], fallback_id: str, presets: Presets = PRESETS, when: When | None = None
) -> Definition:
    """
    Return the definition of a schedule; *presets* are the values of ``urgency``; *when*: its time or rule, if that is
    not in *options*.

    *fallback_id* is used without ``id``. It is made before the first attempt, so that the same call
    can be repeated safely.

    Raises:
        InvalidSchedule: an option is unknown, missing or bad, or two contradict each other.
    """
    known = FOR_ENQUEUE if isinstance(when, Now) else SCHEDULE_OPTIONS
    _refuse_unknown(options, known)
    if options.get("urgency") is None:
        return _definition(func, options, fallback_id, when or _when(options))
    with blaming(options):
        options = expanded(options, presets, known)
        return _definition(func, options, fallback_id, when or _when(options))


def define_now(func: Any, options: Mapping[str, Any], fallback_id: str, presets: Presets = PRESETS) -> Definition:
    """Return the definition of a run that is pushed to its queue at once. Raises as ``define``."""
    definition, given = define(func, options, fallback_id, presets, Now()), options.get("unique_for")
    if options.get("id") is not None and definition.if_exists is not IfExists.REPLACE:
        check = ONLY_ENQUEUE["unique_for"].form.check
        return replace(definition, unique_ms=check("unique_for", UNIQUE_S if given is None else given))
    if given is not None:
        problem = "each of these calls is another run"
        raise InvalidSchedule("unique_for", given, problem, 'give id= and if_exists="keep" (or "error") too')
    return definition


def define_trigger(options: Mapping[str, Any]) -> TriggerSpec:
    """Return only the recurring rule in *options*, for a preview. Raises as ``define``."""
    _refuse_unknown(options, frozenset({*RuleOptions.__annotations__, "jitter"}))
    if options.get("jitter") is not None:
        problem = "the delay of an occurrence within its jitter depends on the schedule's id"
        raise InvalidSchedule("jitter", options["jitter"], problem, "leave it out, or preview a schedule by its id")
    when = _when(options)
    assert isinstance(when, TriggerSpec)  # the other kinds are excluded by the option names above
    return when


def define_rule(options: Mapping[str, Any], jitter_ms: int) -> TriggerSpec:
    """
    Return the rule in *options* of a recurring schedule, which have no time of a one-shot. Its other options are
    checked already, and have the jitter *jitter_ms*. Raises as ``define``.
    """
    when = _when(options)
    assert isinstance(when, TriggerSpec)
    return _with_jitter(when, jitter_ms, options.get("jitter")) if jitter_ms else when


def _refuse_unknown(options: Mapping[str, Any], known: frozenset[str]) -> None:
    for name, value in options.items():
        if name not in known:
            ours = ELSEWHERE.get(name)
            # cart= and uid= are arguments of a function, and no typos of at= and id=.
            near = ours if ours in known else nearest(name, known - {"at", "id"}, 0.65)
            kwargs = "an argument of the function goes into kwargs=; " if "kwargs" in known else ""
            remedy = f"our option is {near}=" if near else f"{kwargs}options are {', '.join(sorted(known))}"
            raise InvalidSchedule(name, value, "no such option here", remedy)


def _definition(func: Any, options: Mapping[str, Any], fallback_id: str, when: When) -> Definition:
    is_recurring = isinstance(when, TriggerSpec)
    values = _checked(options, is_recurring)
    expires_ms, jitter_ms = values.get("expires_ms"), values.get("jitter_ms", 0)
    if expires_ms is not None and expires_ms < jitter_ms:
        problem = f"shorter than jitter={show(options['jitter'])}, so some would expire before they are due"
        raise InvalidSchedule("expires_after", options["expires_after"], problem, "give a longer one, or less jitter")
    if isinstance(when, TriggerSpec) and jitter_ms:
        when, values["jitter_ms"] = _with_jitter(when, jitter_ms, options["jitter"]), 0
    args = options.get("args")
    values |= {"func": func, "args": () if args is None else args, "kwargs": options.get("kwargs")}
    replaces = "id" in values and values.get("if_exists") in (None, IfExists.REPLACE)
    if values.get("if_version") is not None and not replaces:
        problem = "only a schedule of an id, which is replaced, has a version"
        raise InvalidSchedule("if_version", values["if_version"], problem, "give its id, and no if_exists")
    return Definition(**{"id": fallback_id, **values}, when=when)


def _checked(options: Mapping[str, Any], is_recurring: bool) -> dict[str, Any]:
    """Return the values of *options* by the attributes of a definition. An optional one that is None is left out."""
    values: dict[str, Any] = {}
    policies: dict[str, Any] = {}
    for name, option in _CHECKED.items():
        if name not in options or (options[name] is None and option.is_optional):
            continue
        value = options[name]
        if option.once and not is_recurring:
            if value == _HARMLESS.get(name):
                continue
            raise InvalidSchedule(name, value, option.once, f"leave it out, or {GIVE_A_RULE}")
        checked = option.form.check(name, value)
        if option.stored is Stored.RQ:
            values[name] = checked
        elif option.stored is Stored.POLICY:
            policies[option.field] = checked
        else:
            values[option.attribute] = checked
    if policies:
        values["policy"] = Policy(**policies)
        _refuse_contradictions(values["policy"], options)
    return values


def _with_jitter(spec: TriggerSpec, jitter_ms: int, given: object) -> TriggerSpec:
    gap_ms = least_gap_ms(spec)
    if gap_ms is not None and jitter_ms > gap_ms:
        problem = f"larger than the time from one occurrence to the next, {duration_text(gap_ms)}"
        raise InvalidSchedule("jitter", given, problem, "give less")
    return replace(spec, jitter_ms=jitter_ms)


def _when(options: Mapping[str, Any]) -> When:
    given = [name for name in TRIGGERS if options.get(name) is not None]
    if len(given) != 1:
        field, problem = (" and ".join(given), "more than one trigger") if given else (NO_TRIGGER, "none was given")
        raise InvalidSchedule(field, NOT_GIVEN, problem, f"give exactly one of {', '.join(TRIGGERS)}")
    kind = given[0]
    tz, gap, fold = (_part(options, name) for name in ("tz", "gap", "fold"))
    if kind in ("at", "after"):
        for name in _RULE:
            if options.get(name) is not None:
                raise InvalidSchedule(name, options[name], f"{OPTIONS[name].once}, not {kind}=", "leave it out")
    if kind == "at":
        due_ms = instant_ms("at", options["at"], tz, gap or Gap.SHIFT, fold or Fold.FIRST)
        return At(due_ms, local_offset_s(options["at"], tz, due_ms))
    if kind == "after":
        return After(_part(options, "after"))
    return _recurring(kind, options, tz, gap, fold)


def at_open_time(
    options: Mapping[str, Any], calendars: Callable[[], Calendars], now_ms: Callable[[], int]
) -> dict[str, Any]:
    """
    Return the *options* of a one-shot without its exclusions. If it would be due at an excluded time, ``at`` becomes
    the end of that by ``on_excluded="next_open"``.

    Raises:
        InvalidSchedule: its time is excluded, and is not to be moved; or an option of these is bad. RedisUnavailable.
    """
    exclude, on_excluded = _part(options, "exclude"), _part(options, "on_excluded")
    rest = {name: value for name, value in options.items() if name not in ("exclude", "on_excluded")}
    when, tz = _when(rest), _part(options, "tz") or "UTC"
    due_ms = when.due_ms if isinstance(when, At) else now_ms() + cast(After, when).delay_ms
    closed = exclusions_of(exclude, tz, calendars() if any(map(is_name, exclude)) else NO_CALENDARS).at(due_ms)
    if closed is None:
        return rest
    if on_excluded is not OnExcluded.NEXT_OPEN:
        name, open_at = "at" if rest.get("at") else "after", from_ms(closed.end_ms).astimezone(zone(tz)).isoformat()
        remedy = f'the next open time is {open_at}; give that, or on_excluded="next_open"'
        raise InvalidSchedule(name, rest[name], f"excluded: {closed.why}", remedy)
    return {**rest, "at": from_ms(closed.end_ms), "after": None}


def _part(options: Mapping[str, Any], name: str) -> Any:
    """Return the checked value of an option for times; None if it is not given. Raises InvalidSchedule."""
    value = options.get(name)
    return None if value is None else OPTIONS[name].form.check(name, value)


def _recurring(
    name: str, options: Mapping[str, Any], tz: str | None, gap: Gap | None, fold: Fold | None
) -> TriggerSpec:
    count, kind = _part(options, "count"), kind_named(name)
    exclude, on_excluded = _part(options, "exclude") or (), _part(options, "on_excluded")
    if on_excluded is OnExcluded.NEXT_OPEN and not exclude:
        raise InvalidSchedule("on_excluded", on_excluded.value, "nothing is excluded", "leave it out, or give exclude=")
    expr, counted = kind.parse(options[name], tz or "UTC")
    if counted is not None and count is not None:
        raise InvalidSchedule("count", count, f"the {name.upper()} has a COUNT of its own", "give one of the two")
    bounds = {
        name: None if options.get(name) is None else instant_ms(name, options[name], tz) for name in ("starts", "ends")
    }
    if bounds["starts"] is not None and bounds["ends"] is not None and bounds["ends"] < bounds["starts"]:
        raise InvalidSchedule("ends", options["ends"], "before starts", "give a later time")
    return TriggerSpec(
        kind=kind,
        expr=expr,
        tz=tz or "UTC",
        starts_ms=bounds["starts"],
        ends_ms=bounds["ends"],
        count=counted if count is None else count,
        gap=gap or kind.gap,
        fold=fold or Fold.FIRST,
        exclude=exclude,
        on_excluded=on_excluded or OnExcluded.SKIP,
    )


# -- policies -------------------------------------------------------------------------------------


def least_gap_ms(spec: TriggerSpec) -> int | None:
    """Return the least time between the first occurrences of *spec*; None if it has at most one."""
    start_ms = spec.starts_ms - 1 if spec.starts_ms is not None else 0
    times = build(replace(spec, exclude=()), start_ms).between(start_ms, LAST_MS)
    return min((later_ms - ms for ms, later_ms in pairwise(islice(times, 1 + _SAMPLE))), default=None)


def made_void(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield options that have no effect with the policies in *options*, and would contradict them."""
    for one in CONTRADICTIONS:
        beside = options.get(one.beside) or getattr(USUAL, one.beside)
        if not one.only and getattr(beside, "value", beside) not in [each.value for each in one.allowed]:
            yield one.option
    if not options.get("exclude"):
        yield "on_excluded"


def _refuse_contradictions(policy: Policy, given: Mapping[str, Any]) -> None:
    for one in CONTRADICTIONS:
        field = OPTIONS[one.option].field
        value, beside = getattr(policy, field), getattr(policy, one.beside)
        is_said = value in one.only if one.only else value != getattr(USUAL, field)
        if is_said and beside not in one.allowed:
            problem = f"with {one.beside}={beside.value!r} {one.problem}"
            words = f"{one.beside}=" + " or ".join(f'"{each.value}"' for each in one.allowed)
            remedy = f"give {words}, or {one.instead}" if one.instead else f"leave it out, or give {words}"
            raise InvalidSchedule(one.option, getattr(value, "value", given[one.option]), problem, remedy)


# -- urgency --------------------------------------------------------------------------------------


def merged_presets(given: Presets) -> Presets:
    """Return the presets, overridden by those *given*, option by option. Raises InvalidSchedule for invalid presets."""
    found = {name: dict(options) for name, options in PRESETS.items()}
    if not isinstance(given, Mapping) or not all(isinstance(options, Mapping) for options in given.values()):
        raise InvalidSchedule("urgencies", given, "not presets", 'give a dict such as {"digest": {"jitter": 60}}')
    for name, options in given.items():
        for option in options:
            if option not in PRESET_OPTIONS:
                problem = "not an option of an urgency"
                raise InvalidSchedule(option, options[option], problem, f"give {', '.join(PRESET_OPTIONS)}")
        found[name] = {**found.get(name, {}), **options}
    return found


@contextmanager
def blaming(options: Mapping[str, Any]) -> Iterator[None]:
    """Convert errors inside the block: if an option comes from the urgency of *options*, its error names that."""
    try:
        yield
    except InvalidSchedule as error:
        if options.get("urgency") is None or options.get(error.field) is not None or error.field not in PRESET_OPTIONS:
            raise
        problem = f"it has {error.field}={show(error.value)}: {error.problem}"
        remedy = f"give {error.field}= too, or another urgency"
        raise InvalidSchedule("urgency", options["urgency"], problem, remedy) from error


def expanded(options: Mapping[str, Any], presets: Presets, known: frozenset[str]) -> Mapping[str, Any]:
    """
    Return *options*, with those options of their urgency, if any, that are *known* here.

    Raises:
        InvalidSchedule: there is no such urgency.
    """
    name = options.get("urgency")
    if name is None:
        return options
    if not isinstance(name, str) or name not in presets:
        raise InvalidSchedule("urgency", name, "not an urgency", f"give one of {', '.join(presets)}")
    preset = {option: value for option, value in presets[name].items() if option in known}
    said = {option: value for option, value in options.items() if value is not None or option not in preset}
    return {**preset, **said, "urgency": None}
