"""
Urgency: named bundles of options, for those who think of a kind of message and not of lanes and seconds.

A preset is options of ``client.schedule``; what a call says itself counts before it. ``[urgency.<name>]`` in the
configuration changes or adds presets for the command line, ``Client(urgencies=…)`` for a program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from zsched.errors import InvalidSchedule, show

Presets = Mapping[str, Mapping[str, Any]]

OPTIONS: Final = ("priority", "at_front", "expires_after", "jitter")  # that a preset may have

PRESETS: Final[Presets] = {
    "asap": {"priority": "high", "at_front": True},
    "time_sensitive": {"priority": "high", "expires_after": 30 * 60},
    "digest": {"priority": "low", "expires_after": 24 * 3600, "jitter": 10 * 60},
}


def merged_presets(given: Presets) -> Presets:
    """The presets with those *given* over them, option by option. Raises InvalidSchedule for what are none."""
    found = {name: dict(options) for name, options in PRESETS.items()}
    if not isinstance(given, Mapping) or not all(isinstance(options, Mapping) for options in given.values()):
        raise InvalidSchedule("urgencies", given, "not presets", 'give a dict such as {"digest": {"jitter": 60}}')
    for name, options in given.items():
        for option in options:
            if option not in OPTIONS:
                raise InvalidSchedule(option, options[option], "no option of an urgency", f"give {', '.join(OPTIONS)}")
        found[name] = {**found.get(name, {}), **options}
    return found


@contextmanager
def blaming(options: Mapping[str, Any]) -> Iterator[None]:
    """Inside the block, what is wrong with an option that only the urgency of *options* gave is told as of that."""
    try:
        yield
    except InvalidSchedule as error:
        if options.get("urgency") is None or options.get(error.field) is not None or error.field not in OPTIONS:
            raise
        problem = f"it has {error.field}={show(error.value)}: {error.problem}"
        remedy = f"give {error.field}= too, or another urgency"
        raise InvalidSchedule("urgency", options["urgency"], problem, remedy) from error


def expanded(options: Mapping[str, Any], presets: Presets, known: frozenset[str]) -> Mapping[str, Any]:
    """
    *options* with those of their urgency, if they name one, as far as they are *known* here.

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
