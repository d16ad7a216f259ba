"""The rows, in the order of the report."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.arena import Arena
from bench.results import Result
from bench.rows import (
    archive,
    archived_dispatch,
    bulk,
    campaign,
    console,
    dispatch,
    durable,
    footprint,
    forecast,
    http,
    idle,
    lateness,
    listing,
    loops,
    memory,
    native,
    planning,
    priority,
    rebuild,
    recurring,
    search,
    signed,
    startup,
    takeover,
    tracked,
    why,
)


@dataclass(frozen=True, slots=True)
class Row:
    """
    One row: what it measures, and how. ``is_heavy``: minutes and gigabytes, so only when asked for.
    """

    name: str
    about: str
    run: Callable[[Arena], Result]
    is_heavy: bool = False


ROWS = {
    row.name: row
    for row in (
        Row("dispatch", "one-shots due at once → RQ queue, one daemon, no AOF", dispatch.without_aof),
        Row("dispatch-aof", "the same with appendonly, fsync every second", dispatch.with_aof),
        Row("native", "RQ's own delayed jobs due at once → RQ queue, one daemon, no AOF", native.measure),
        Row("recurring", "recurring schedules due at once, 1,440 cron rules", recurring.measure),
        Row("planning", "ten thousand schedules of every second, after a year without a daemon", planning.measure),
        Row("forecast", "the future of ten thousand schedules, counted by hour and minute", forecast.measure),
        Row("lateness", "due → queued, one-shots and recurring, at three loads", lateness.measure),
        Row("priority", "lateness of high behind a million overdue low ones", priority.measure),
        Row("bulk", "schedule_many, one Python process, log on", bulk.measure),
        Row("bulk-recurring", "the same of 20,000 recurring schedules, 1,440 cron rules", bulk.measure_recurring),
        Row("signed", "schedule_many with signing beside without", signed.measure),
        Row("guarded", "runs by a worker with a guard beside plain ones", signed.measure_workers),
        Row("loop", "single puts of one event loop, beside bare EVALSHA", loops.measure),
        Row("http", "single puts over HTTP, beside an empty route of FastAPI", http.measure),
        Row("http-batch", "many schedules in one request, beside schedule_many", http.measure_batches),
        Row("web", "pages of the console among a million, and twenty viewers beside firing", console.measure),
        Row("memory", "bytes per pending one-shot without its log entry", memory.measure),
        Row("takeover", "until the standby fires: kill -9, clean stop", takeover.measure),
        Row("archive", "occurrences archived per second, put and fired; their bytes on disk", archive.measure),
        Row(
            "archived-dispatch",
            "dispatch with the daemon's archiver beside dispatch without",
            archived_dispatch.measure,
        ),
        Row("rebuild", "a million schedules, from the archive into a flushed Redis", rebuild.measure),
        Row("durable", "schedule(durable=True), one after the other, one idle daemon", durable.measure),
        Row("why", "the story of one id among a million history entries", why.of_a_million),
        Row("search", "the first page of a search by each filter, among a million runs", search.of_a_million),
        Row("tracked", "ten thousand runs end per second, beside a million that wait", tracked.measure),
        Row("startup", "python, import redis, import of a client, `zsched --version`, `zsched ls`", startup.measure),
        Row("listing", "the first page, and five ids by a pattern, among a million waiting", listing.measure),
        Row("idle", "CPU of a daemon with a million pending, in its second minute", idle.measure),
        Row("footprint", "memory of a daemon that fired a million one-shots", footprint.measure),
        Row("campaign", "ten million due at once, and other clients meanwhile", campaign.without_aof, is_heavy=True),
        Row("campaign-aof", "the same with appendonly, fsync every second", campaign.with_aof, is_heavy=True),
        Row("why-10m", "the story of one id among ten million history entries", why.of_ten_million, is_heavy=True),
        Row("search-10m", "a search by each filter among ten million runs", search.of_ten_million, is_heavy=True),
    )
}
