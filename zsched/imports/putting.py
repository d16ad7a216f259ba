"""
Put the schedules of a source into Redis.

    check     each item as ``client.schedule`` would; a refusal is noted with its place, and the rest continues
    twins     refuse an id that an earlier source of the same import has: one schedule has one owner
    compare   recurring schedules with Redis, like a file of schedules (``files.applying``); nothing is written yet
    put       changed schedules; then move the one-shots (``moving``)

Not guaranteed: see the package's docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zsched.client import Client
from zsched.core.model import Definition
from zsched.core.options.define import define
from zsched.core.pages import pages_of
from zsched.core.toml import Lines
from zsched.errors import ZschedError
from zsched.files.applying import CREATED, Application, Applied
from zsched.files.checking import ClientChecks
from zsched.files.reading import FileEntry, ScheduleFile
from zsched.imports.found import ImportSource, Item, OneShot
from zsched.imports.moving import PAGE, Moving
from zsched.storage.connection import Link


def refuse_twins(imported: Sequence[Importing]) -> None:
    """Refuse in each of *imported* the items with an id of an earlier source."""
    owners: dict[str, ImportSource] = {}
    for one in imported:
        source, twins = one.source, [item for item in one.source.items if item.id in owners]
        source.items = [item for item in source.items if item.id not in owners]
        for item in twins:
            problem = f"id={item.id!r}: {owners[item.id].name} has the same, and a schedule has one source"
            remedy = "take it out of one; of two machines' crontabs import each into a namespace of its own"
            one.refuse(item, f"{problem}; {remedy}")
        owners |= {item.id: source for item in source.items}


class Importing:
    """
    The import of one source, and its result. *link*: for moving one-shots; *takes_over*: as for ``Application``.
    ``definitions``: the checked schedules, by id; ``moved``: the outcome of each moved one-shot.
    """

    def __init__(
        self, client: Client, link: Link, checks: ClientChecks, source: ImportSource, *, takes_over: bool = False
    ) -> None:
        self._client, self._link, self._checks, self.source = client, link, checks, source
        self._takes_over = takes_over
        self.definitions: dict[str, Definition] = {}
        self.applied = Applied()
        self.moved: dict[str, str] = {}

    @property
    def is_whole(self) -> bool:
        """Return True if the whole source is in zsched."""
        return not self.source.refusals and not self.applied.errors

    def count(self, outcome: str) -> int:
        """Count the schedules with this outcome."""
        return self.applied.count(outcome) + sum(each == outcome for each in self.moved.values())

    def refuse(self, item: Item, problem: str) -> None:
        """Note that *item* cannot be imported."""
        self.source.refuse(item.place, str(item.options.get("description", item.id)), problem)

    def check(self) -> None:
        """Check every item without Redis, and refuse the invalid ones."""
        items, self.source.items = self.source.items, []
        for item in items:
            try:
                self.definitions[item.id] = self._defined(item)
                self.source.items.append(item)
            except ZschedError as error:
                self.refuse(item, str(error))

    def foretell(self, *, prune: bool) -> None:
        """
        Note the steps of a dry run; nothing is written.

        Raises:
            InvalidFile: an id is another owner's, or a one-shot's; then put nothing.
        """
        entries = tuple(
            FileEntry(item.id, number, self.definitions[item.id])
            for number, item in enumerate(self.source.items, 1)
            if not isinstance(item, OneShot)
        )
        file = ScheduleFile(self.source.name, self.source.owner, entries, {}, Lines(""))
        self._application = Application(self._client, file, takes_over=self._takes_over)
        self.applied = self._application.foretell(prune=prune)
        self.moved = {item.id: CREATED for item in self.source.items if isinstance(item, OneShot)}

    def run(self, on_progress: Callable[[int], None]) -> None:
        """
        Do the steps of ``foretell``, and note the results; *on_progress* is called with the number of schedules done.

        Raises:
            RedisUnavailable: in the middle; the same import again continues from there.
        """
        number = len(self.applied.steps)
        self.applied = self._application.carry_out(self.applied, on_progress)
        self.moved, moving = {}, Moving(self._client, self._link, self.source)
        for page in pages_of((item for item in self.source.items if isinstance(item, OneShot)), PAGE):
            self.moved |= moving.move(page)
            number += len(page)
            on_progress(number)

    def _defined(self, item: Item) -> Definition:
        """Return the definition of *item*. Raises ZschedError."""
        options = {**item.options, "id": item.id, "owner": self.source.owner}
        if isinstance(item, OneShot):
            self._checks.allow(item.func, options)
            definition = define(item.func, options, item.id)
        else:
            definition = self._checks.define(item.func, options)
        for mistake in self._checks.mistakes(item.func, options):
            raise mistake
        return definition
