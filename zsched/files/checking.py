"""
Checks of a file's entries: the client's own checks of options, and the tasks behind functions.

Not guaranteed: that a function, and what it takes, is as its entry says where its module cannot be imported from here.
``unchecked`` has these, and the options of their schedules are those of the file alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from zsched.client import Client
from zsched.client.keeper import Keeper
from zsched.core.model import Definition
from zsched.errors import InvalidSchedule
from zsched.tasks.lookup import Lookup

_ANY: Final = "module.function"  # stands in for a function that was found to be bad

Allow = Callable[[str | None, Mapping[str, Any]], None]


def _all(func: str | None, options: Mapping[str, Any]) -> None:
    """Every function may be named."""


class ClientChecks:
    """
    Checks by what *client* would put. *allow* raises InvalidSchedule for functions that may not be named, before they
    are imported, which is done inside of *importing*.
    """

    def __init__(
        self,
        client: Client,
        allow: Allow = _all,
        importing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._keeper, self._allow, self._importing = Keeper(client), allow, importing
        self._lookup = Lookup()

    @property
    def unchecked(self) -> Mapping[str, str]:
        """Function paths that could not be imported from here, each with the module that there is none of."""
        return self._lookup.absent

    def define(self, func: str | None, options: Mapping[str, Any]) -> Definition:
        """Return the definition of an entry, whatever its function takes. Raises InvalidSchedule."""
        self._allow(func, options)
        if func is not None:
            with self._importing():
                options = self._lookup.options_beside(func, options)
        return self._keeper.define(func or _ANY, options)

    def mistakes(self, func: str, options: Mapping[str, Any]) -> Iterable[InvalidSchedule]:
        """Yield the mistakes in the arguments of an entry whose function ``define`` accepted."""
        with self._importing():
            return list(self._lookup.mistakes(func, options))
