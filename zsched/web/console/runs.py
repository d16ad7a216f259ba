"""
Runs: found by filters, and one with its attempts; retry and cancel, also of all that the filters find, or
of chosen rows.

Runs that did not succeed are shown in groups, too: those of one function with the same error, but for its numbers. A
group of failures may be made known.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from glob import escape
from hashlib import sha256
from typing import Any, Final, NamedTuple

from fastapi import APIRouter, Request
from starlette.datastructures import ImmutableMultiDict
from starlette.responses import Response

from zsched.aio import bridge
from zsched.core.clock import from_ms
from zsched.core.known import Known, known_as
from zsched.core.occurrences.changes import Change
from zsched.core.options.arguments import LONGEST_FILTER
from zsched.core.repair import Repaired
from zsched.core.runs.run import BAD, UNSUCCESSFUL, Run, RunStatus
from zsched.errors import InvalidSchedule, RedisRefused
from zsched.storage.workers import WorkerSeen, workers_seen
from zsched.web import actions
from zsched.web.console.schedules import result_text
from zsched.web.console.view import PAGE, View, Viewed, chosen, given_filters, within
from zsched.web.reading import around
from zsched.web.runs import retries_of

router = APIRouter(include_in_schema=False)

_FILTERS: Final = ("status", "func", "queue", "tag", "owner", "name", "match", "since")
_ACTIONS: Final = {"retry": "retry", "cancel": "cancel_run"}
_USUAL: Final = {"status": RunStatus.FAILED.value, "since": "1h"}
_GROUPED: Final = 500  # the newest runs, in groups; an archive takes 0.2 ms for each
_LEFT_OUT: Final = "not."  # before a group's key in a form
_FIELDS: Final = 200  # of that form
_KNOWN: Final = ("func", "error", "for", "note")


class FailureGroup(NamedTuple):
    """*times* runs of the function *func* that ended alike, ``last`` as the last one; *known* as this failure."""

    func: str
    last: Run
    times: int
    known: Known | None = None

    @property
    def glob(self) -> str:
        """A glob for their errors, but for their numbers."""
        glob = re.sub("[0-9]+", "*", escape(self.last.error))
        return glob if len(glob) <= LONGEST_FILTER else f"{glob[: LONGEST_FILTER - 1]}*"


class FailureGroups:
    """The groups ``by_key`` of the runs that a form wants: of its group, or all, without those that it leaves out."""

    def __init__(self, given: Mapping[str, str], known: Sequence[Known] = ()) -> None:
        self._known, self._only = known, given.get("group", "")
        self._left_out = {name.removeprefix(_LEFT_OUT) for name in given if name.startswith(_LEFT_OUT)}
        self.by_key = dict[str, FailureGroup]()

    def wants(self, one: Change) -> bool:
        """Return True for a wanted run, and add it. The newest run comes first."""
        func, error = one.facets.func if one.facets else "", one.run.error if one.run else ""
        key = sha256(f"{func} {re.sub('[0-9]+', '#', error)}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
        if one.run is None or key != (self._only or key) or key in self._left_out:
            return False
        if key not in self.by_key:
            known = known_as(one.run._replace(func=func), self._known, 0)
            self.by_key[key] = FailureGroup(func, one.run, 0, known)
        self.by_key[key] = self.by_key[key]._replace(times=self.by_key[key].times + 1)
        return True


@router.get("/runs")
async def list_(view: Viewed, request: Request, after: str | None = None) -> Response:
    """List the runs that the filters find, the newest first."""
    view.call.demand_all("a list of runs")
    filters = given_filters(request.query_params, _FILTERS)
    shown: dict[str, Any] = {"filters": filters, "names": _FILTERS, "statuses": [status.value for status in RunStatus]}
    try:
        options = _options(view, filters)
        status, client = options.pop("status", None), view.call.client
        found = await client.runs(None, status, PAGE, after=after or None, **options)
        if not found and "match" in filters:  # no whole id: a part of one
            options["match"] = filters["match"] = within(filters["match"])
            found = await client.runs(None, status, PAGE, after=after or None, **options)
    except InvalidSchedule as error:
        return view.refused(error, "runs", **shown)
    is_retried = filters.get("status") in UNSUCCESSFUL
    groups = FailureGroups({}, await client.known_failures() if is_retried else ())
    if is_retried and not after:
        async for one in client.iter_history(None, limit=_GROUPED, **_options(view, filters)):
            groups.wants(one)
    return view.page(
        "runs", runs=found, source=found.source, after=found.after, is_retried=is_retried, most=_GROUPED,
        groups=groups.by_key, bad=BAD, retried=UNSUCCESSFUL, replacements=await retries_of(client, found), **shown,
    )  # fmt: skip


@router.get("/runs:retry")
async def confirm(view: Viewed, request: Request) -> Response:
    """Show how many runs a retry of the chosen rows, or of all that the filters find, would push, and ask."""
    view.call.demand_write()
    view.call.demand_all("a search for runs")
    given, filters = request.query_params, {**_USUAL, **given_filters(request.query_params, _FILTERS)}

    async def plan() -> dict[str, Any]:
        groups = FailureGroups(given)
        return {"plan": await _retried(view, filters, given, groups, dry_run=True), "groups": groups.by_key}

    return view.later(
        "retry_all", plan, filters=filters, group=given.get("group", ""), left_out=_LEFT_OUT, ids=chosen(given)
    )


@router.post("/runs:retry")
async def retry_all(view: Viewed) -> Response:
    """Retry the chosen runs, or all that the filters find."""
    form = await view.form(_FIELDS)
    filters = {**_USUAL, **given_filters(form, _FILTERS)}
    done = await _retried(view, filters, form, FailureGroups(form), until=from_ms(view.now_ms))
    return view.done(result_text(done, "retried", "run"), "runs", **filters)


@router.post("/runs:ack")
async def ack(view: Viewed, request: Request) -> Response:
    """Make failures known, or take that back."""
    form, client = await view.form(), view.call.client
    view.call.demand_all("known failures")
    filters = given_filters(request.query_params, _FILTERS)
    if name := form.get("remove"):
        said = f"known failure {name}: {'taken back' if await client.remove_ack(name) else 'not found'}"
    else:
        given = {"for_" if name == "for" else name: form[name] for name in _KNOWN if form.get(name)}
        one = await client.ack(**given)
        said = f"known until {view.local(one.until_ms)}"
    return view.done(said, "runs" if filters else "", **filters)


@router.get("/runs/{run_id:plain}")
async def show(view: Viewed, run_id: str) -> Response:
    """Show a run: times, attempts, error, note and worker."""
    run, source = await view.call.client.get_run(run_id)
    story = await view.call.client.why(run_id, view.tz)
    retry = (await retries_of(view.call.client, [run], run.schedule_id)).of_run(run_id)
    workers = list[WorkerSeen]()
    with suppress(RedisRefused):
        if run.status is RunStatus.RUNNING:
            workers = await bridge.run(view.request.app.state.reader.on_wire, workers_seen, run.worker)
    return view.page(
        "run", run=run, attempts=run.every_attempt, source=source, story=story, retried=UNSUCCESSFUL, retry=retry,
        workers=workers,
    )  # fmt: skip


@router.post("/runs/{run_id:plain}:{action}")
async def act(view: Viewed, run_id: str, action: str) -> Response:
    """Retry or cancel a run."""
    view.call.demand_write()
    if action not in _ACTIONS:
        raise actions.unknown_action(action, "use the buttons of the run's page")
    done = await actions.change_run(view.call, _ACTIONS[action], run_id)
    return view.done(f"retry of {run_id}", "runs", done) if action == "retry" else view.done(done, "runs", run_id)


def _options(view: View, filters: Mapping[str, str]) -> dict[str, Any]:
    """Return *filters* as the client takes them. Raises InvalidSchedule."""
    options: dict[str, Any] = dict(filters)
    if "since" in options:
        options["since"] = around("since", options["since"], view.now_ms, -1)
    return options


async def _retried(
    view: View, filters: Mapping[str, str], given: ImmutableMultiDict[str, str], groups: FailureGroups, **more: Any
) -> Repaired:
    """Retry the rows chosen in *given*, whatever the filters, or those that *filters* and *groups* want."""
    options = {**_options(view, filters), "only": groups.wants, **more}
    status, ids = options.pop("status"), chosen(given)
    if ids:
        options = {"ids": ids, "dry_run": "dry_run" in more}
    return await actions.retry_all(view.call, status, **options)
