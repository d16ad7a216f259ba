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
from dataclasses import dataclass, field

from zsched.client import Client
from zsched.core.model import At, Definition
from zsched.core.options.define import define
from zsched.core.pages import pages_of
from zsched.errors import ZschedError
from zsched.files import Application, Applied, ClientChecks, FileEntry, ScheduleFile
from zsched.files.applying import CREATED
from zsched.files.checking import Allow
from zsched.imports.found import ImportSource, Item
from zsched.imports.moving import PAGE, MovedItem, Moving, OneShot
from zsched.storage.connection import Link


@dataclass(slots=True)
class Imported:
    """Result of importing a source, or of a dry run; ``definitions``: the checked schedules, by id."""

    source: ImportSource
    definitions: dict[str, Definition] = field(default_factory=dict)
    applied: Applied = field(default_factory=Applied)
    moved: list[MovedItem] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Return True if the whole source is in zsched."""
        return not self.source.refusals and not self.applied.errors

    def count(self, outcome: str) -> int:
        """Count the schedules with this outcome."""
        return self.applied.count(outcome) + sum(moved.outcome == outcome for moved in self.moved)


def refuse_twins(imported: Sequence[Imported]) -> None:
    """Refuse in each of *imported* the items with an id of an earlier source."""
    owners: dict[str, ImportSource] = {}
    for one in imported:
        source, twins = one.source, [item for item in one.source.items if item.id in owners]
        source.items = [item for item in source.items if item.id not in owners]
        for item in twins:
            del one.definitions[item.id]
            problem = f"id={item.id!r}: {owners[item.id].name} has the same, and a schedule has one source"
            remedy = "take it out of one; of two machines' crontabs import each into a namespace of its own"
            source.refuse(item.place, str(item.options.get("description", item.id)), f"{problem}; {remedy}")
        owners |= {item.id: source for item in source.items}


class Importing:
    """
    The import of one source; ``imported`` is its result. *allow*: as for *checks*; *link*: for moving one-shots;
    *takes_over*: as for ``Application``.
    """

    def __init__(
        self,
        client: Client,
        source: ImportSource,
        checks: ClientChecks,
        allow: Allow,
        link: Link,
        *,
        takes_over: bool = False,
    ) -> None:
        self.imported = Imported(source)
        self._client, self._link, self._source = client, link, source
        self._checks, self._allow, self._takes_over = checks, allow, takes_over

    def check(self) -> Imported:
        """Check every item without Redis, and refuse the invalid ones."""
        good = []
        for item in self._source.items:
            try:
                self.imported.definitions[item.id] = self._defined(item)
                good.append(item)
            except ZschedError as error:
                self._source.refuse(item.place, str(item.options.get("description", item.id)), str(error))
        self._source.items = good
        return self.imported

    def foretell(self, *, prune: bool) -> None:
        """
        Note the steps of a dry run; nothing is written.

        Raises:
            InvalidFile: an id is another owner's, or a one-shot's; then put nothing.
        """
        entries = [
            FileEntry(item.id, number, self.imported.definitions[item.id])
            for number, item in enumerate(self._source.items, 1)
            if item.origin is None
        ]
        file = ScheduleFile(self._source.name, self._source.owner, tuple(entries))
        self._application = Application(self._client, file, takes_over=self._takes_over)
        self.imported.applied = self._application.foretell(prune=prune)
        self.imported.moved = [MovedItem(one.item, CREATED, one.due_ms) for one in self._one_shots()]

    def run(self, on_progress: Callable[[int], None]) -> None:
        """
        Do the steps of ``foretell``, and note the results; *on_progress* is called with the number of schedules done.

        Raises:
            RedisUnavailable: in the middle; the same import again continues from there.
        """
        number, one_shots = len(self.imported.applied.steps), self._one_shots()
        self.imported.applied = self._application.carry_out(self.imported.applied, on_progress)
        self.imported.moved, moving = [], Moving(self._client, self._link, self._source)
        for page in pages_of(one_shots, PAGE):
            self.imported.moved += moving.move(page)
            number += len(page)
            on_progress(number)

    # -- how ----------------------------------------------------------------------------------------

    def _defined(self, item: Item) -> Definition:
        """Return the definition of *item*. Raises ZschedError."""
        options = {**item.options, "id": item.id, "owner": self._source.owner}
        if item.origin is None:
            definition = self._checks.define(item.func, options)
        else:
            self._allow(item.func, options)
            definition = define(item.func, options, item.id)
        for mistake in self._checks.mistakes(item.func, options):
            raise mistake
        return definition

    def _one_shots(self) -> list[OneShot]:
        """Return the one-shots to move."""
        found = ((item, self.imported.definitions[item.id].when) for item in self._source.items)
        return [
            OneShot(item, item.origin, when.due_ms)
            for item, when in found
            if item.origin is not None and isinstance(when, At)
        ]
