"""``zsched why``, ``history`` and ``log``: real daemons, and a command line that sees Redis and no archive's file."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import pytest
import redis
from click.testing import CliRunner, Result

from tests.faults.processes import archive_of_its_own, eventually
from tests.faults.threads import STEADY, DaemonThread, know
from zsched import Client
from zsched.cli import program
from zsched.cli.exits import DONE, NOT_FOUND, USAGE
from zsched.config import ArchiveSettings
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

pytestmark = pytest.mark.redis
KEYS = Keys("default")
FUNC = "zsched.demo.tasks.heartbeat"
DEADLINE_S = 30.0
# A command line for which there is no archive: neither its code nor SQLite can be imported.
BLIND = (
    "import sys; sys.modules['zsched.archive'] = sys.modules['sqlite3'] = None;"
    "from zsched.cli import main; sys.exit(main())"
)
IMPATIENT = {"ZSCHED_REDIS_TIMEOUT_S": "0.5"}  # 0.25 s for an archive to answer, where there is none
NO_ANSWER = "no archive answered within 0.25 s"
ALONE = r"from Redis alone, whose log goes back to 20\d\d-\d\d-\d\d .*\+00:00"


@pytest.fixture
def client(redis_client: redis.Redis, redis_url: str) -> Client:
    know(redis_client)
    return Client.from_url(redis_url)


@pytest.fixture
def path() -> Path:
    return Path(archive_of_its_own())


@pytest.fixture
def zsched(redis_url: str) -> Zsched:
    return Zsched(redis_url)


class Zsched:
    """Runs the command line without an archive's path that exists; ``json`` gives what it answers."""

    def __init__(self, url: str) -> None:
        self.env = {"ZSCHED_REDIS_URL": url, "ZSCHED_ARCHIVE_PATH": "/nonexistent/archive.db"}

    def __call__(self, *arguments: str, **env: str) -> Result:
        return CliRunner().invoke(program, arguments, env=self.env | env)

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json").stdout)

    def story(self, id: str) -> list[str]:
        """The texts of the story of *id*, and then where it stands."""
        told = self.json("why", id)
        assert told["source"]["archive"] is not None, told["source"]["problem"]
        return [line["text"] for line in told["story"]] + [told["now"]]


class Leading:
    """A daemon that leads and whose archive follows, inside the block."""

    def __init__(self, url: str, path: Path) -> None:
        self._url, self._daemon = url, DaemonThread(url, archive=ArchiveSettings(path=str(path)), **STEADY)

    def __enter__(self) -> DaemonThread:
        daemon = self._daemon.__enter__()
        daemon.wait_for("term_began")
        link = Link.from_url(self._url, 5)
        eventually(Archivers(link, KEYS).alive)
        link.pool.disconnect()
        return daemon

    def __exit__(self, *raised: Any) -> None:
        self._daemon.__exit__(*raised)


def queued(redis_client: redis.Redis, number: int = 1) -> None:
    """Waits for runs."""
    eventually(lambda: redis_client.llen("rq:queue:default") >= number)


# -- why ----------------------------------------------------------------------------------------------


def test_of_a_fired_one_it_is_told_when_and_how_late(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path):
        run = client.schedule(FUNC, id="a", after=0.1, created_by="me").run_id
        queued(redis_client)

        created, fired, now = zsched.story("a")

    assert re.fullmatch(r"created for \S+ \S+, by me", created)
    assert re.fullmatch(rf"fired for \S+ \S+, \d+\.\d m?s late(: .*)?; run {run}", fired)
    told = r"it is not scheduled any more: it fired, and its run is queued since \S+ \S+; RQ knows of no worker that.*"
    assert re.fullmatch(told, now)


def test_of_one_that_fired_late_because_no_daemon_ran_that_is_said(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    # given: a life of the archive before, so that the schedule is due in the time without a daemon
    with Leading(redis_url, path):
        client.schedule(FUNC, id="a", at=datetime.now(UTC) + timedelta(seconds=1.2), allow_past=True)
        due_ms = client.get("a").next_ms
    assert due_ms is not None
    eventually(lambda: client.overview().now_ms > due_ms + 1100)

    with Leading(redis_url, path):
        queued(redis_client)

        _, fired, _ = zsched.story("a")

    assert re.search(r" late: no daemon led from then until \S+ \S+; run a-", fired)


def test_of_coalesced_occurrences_it_is_said_which_and_in_favour_of_which(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    client.schedule(FUNC, id="a", every=0.1)
    first = client.get("a").next_ms
    assert first is not None
    eventually(lambda: client.overview().now_ms > first + 500)

    with Leading(redis_url, path):
        queued(redis_client)
        story = zsched.story("a")

    assert re.fullmatch(
        r"left out [\d,]+ occurrences, .* to .*, in favour of .*: no daemon led from .* until .*", story[1]
    )
    assert story[2].startswith("fired for ")
    assert story[-1].startswith("active; next ")


def test_of_a_paused_and_a_cancelled_one_that_is_said(
    zsched: Zsched, client: Client, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path):
        for id in ("paused", "cancelled"):
            client.schedule(FUNC, id=id, after=3600)
        client.pause("paused", note="until May")
        client.cancel("cancelled")

        paused, cancelled = zsched.story("paused"), zsched.story("cancelled")

    assert 'paused: "until May"' == paused[1]
    assert re.match(r'paused since .*: "until May"; it would be due .*; zsched resume paused lets it go on', paused[2])
    assert cancelled[1].startswith("cancelled; it was for ")
    assert "it is not scheduled any more: it was cancelled" == cancelled[2]


def test_of_a_quarantined_one_the_reason_is_told(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    redis_client.set("rq:queue:broken", "no list")
    with Leading(redis_url, path):
        client.schedule(FUNC, id="broken", after=0.05, queue="broken")
        run = client.schedule(FUNC, id="lost", after=0.2).run_id
        redis_client.delete(f"rq:job:{run}")
        eventually(lambda: client.overview().quarantined == 2)

        broken, lost = zsched.story("broken"), zsched.story("lost")

    assert "quarantined: wrong type at rq:queue:broken" == broken[1]
    assert re.fullmatch(
        r'quarantined since .*: "wrong type at rq:queue:broken"; schedule it again, or cancel it', broken[2]
    )
    assert "quarantined: its hash is gone" == lost[1]


def test_of_an_unknown_one_it_is_said_that_nothing_is_known(
    zsched: Zsched, client: Client, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path):
        for_people, for_programs = zsched("why", "nobody"), zsched("why", "nobody", "--json")

    assert (NOT_FOUND, NOT_FOUND) == (for_people.exit_code, for_programs.exit_code)
    assert "nobody: never heard of it: no schedule of this id was ever put here\n" == for_people.stdout
    assert for_people.stderr.startswith("from the archive ")
    assert not json.loads(for_programs.stdout)["known"]
    assert "" == for_programs.stderr


def test_the_command_line_needs_no_archive_but_redis(
    redis_url: str, client: Client, path: Path, guard: Guard, tmp_path: Path
) -> None:
    own = tmp_path / "state" / "archive.db"
    env = {**os.environ, "ZSCHED_REDIS_URL": redis_url, "ZSCHED_ARCHIVE_PATH": "/nonexistent/archive.db"}
    with Leading(redis_url, own):
        client.schedule(FUNC, id="a", after=3600)
        asked = {
            command: guard.spawn(
                [sys.executable, "-c", BLIND, *command.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
            )
            for command in ("why a", "history", "log --since 1h")
        }
        told = {command: child.communicate(timeout=DEADLINE_S) for command, child in asked.items()}

    assert 0o700 == stat.S_IMODE(own.parent.stat().st_mode)
    assert [DONE] * 3 == [child.returncode for child in asked.values()]
    assert b"created for " in told["why a"][0]
    assert f"{own}, complete since the beginning, up to log entry ".encode() in told["why a"][1]
    assert f"{own}".encode() in told["history"][1]


def test_times_are_told_in_a_zone_with_milliseconds(zsched: Zsched, client: Client, redis_url: str, path: Path) -> None:
    with Leading(redis_url, path):
        client.schedule(FUNC, id="a", at=datetime(2030, 1, 1, tzinfo=UTC))

        line, now = zsched("why", "a", "--tz", "Asia/Seoul").stdout.splitlines()
        wrong = zsched("why", "a", "--tz", "Asia/Nowhere")

    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+09:00  created for 2030-01-01 09:00:00\+09:00", line)
    assert now.startswith("now: active; next 2030-01-01 09:00:00+09:00, in ")
    assert USAGE == wrong.exit_code


def test_without_any_archive_redis_tells_what_it_has_and_that_it_is_alone(zsched: Zsched, client: Client) -> None:
    client.schedule(FUNC, id="a", after=3600)

    story, unknown = zsched("why", "a", **IMPATIENT), zsched("why", "nobody", **IMPATIENT)

    assert (DONE, NOT_FOUND) == (story.exit_code, unknown.exit_code)
    assert "  created for " in story.stdout
    assert re.fullmatch(rf"{ALONE}: no archive answered within 0.25 s\n", story.stderr)
    assert re.fullmatch(
        r"nobody: never heard of it: nothing is known of this id since .*; what was before is not in reach\n",
        unknown.stdout,
    )


def test_the_id_of_a_run_is_as_good(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path):
        client.schedule(FUNC, id="a", every=3600, starts=datetime.now(UTC) + timedelta(hours=1))
        first, second = client.run_now("a"), client.run_now("a")
        queued(redis_client, 2)

        one, other, schedule, nothing = (zsched.json("why", id) for id in (first, second, "a", "a-1785283200000"))

    assert [[first], [second]] == [[change["run_id"] for change in story["changes"]] for story in (one, other)]
    assert (first, True) == (one["id"], one["known"])
    assert one["now"].startswith(f"run {first} of schedule a is queued since ")
    assert ["put", "enqueued", "enqueued"] == [change["what"] for change in schedule["changes"]]
    assert nothing["now"].startswith("never heard of it: the changes of schedule a do not name it")


# -- history ------------------------------------------------------------------------------------------


def test_history_is_a_table_of_what_became_of_occurrences(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path):
        client.schedule(FUNC, id="a", at=datetime(2020, 1, 1, tzinfo=UTC), allow_past=True)
        queued(redis_client)
        client.schedule(FUNC, id="b", at=datetime(2030, 1, 1, tzinfo=UTC))
        client.cancel("b")

        result = zsched("history", "--tz", "Asia/Seoul")
        fired = zsched.json("history", "a", "--status", "fired")
        none = zsched("history", "b", "--status", "quarantined")

    header, cancelled, first = result.stdout.splitlines()
    columns = ["DECIDED", "SCHEDULE", "STATUS", "OCCURRENCE", "LATE", "RUN", "STATE", "WAITED", "TOOK", "WHY"]
    assert columns == header.split()
    assert re.search(r"\+09:00  b +cancelled  2030-01-01 09:00:00\+09:00", cancelled)
    assert re.search(r"\+09:00  a +fired      2020-01-01 09:00:00\+09:00  \d+ d.*  a-1577836800000  queued$", first)
    assert result.stderr.startswith("from the archive ")
    [occurrence] = fired["occurrences"]
    assert ("fired", "2020-01-01T00:00:00.000Z", "a-1577836800000") == tuple(
        occurrence[name] for name in ("what", "nominal_at", "run_id")
    )
    assert fired["source"]["archive"].endswith(str(path))
    assert "nothing was quarantined, of schedule b\n" == none.stdout


def test_history_knows_its_words(zsched: Zsched) -> None:
    assert USAGE == zsched("history", "--status", "paused").exit_code
    assert USAGE == zsched("history", "--limit", "1001").exit_code
    assert USAGE == zsched("history", "--tz", "Nowhere").exit_code
    assert "fired|enqueued|skipped|expired|coalesced|duplicate|cancelled|quarantined" in zsched("history", "-h").output


# -- log ----------------------------------------------------------------------------------------------


def texts(result: Result) -> list[str]:
    """What the lines say after time and entry."""
    assert DONE == result.exit_code, result.output
    return [line.split("  ", 2)[2] for line in result.stdout.splitlines()]


def test_the_log_is_a_line_per_entry_and_never_shows_arguments(zsched: Zsched, client: Client) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    client.schedule_many({"func": FUNC, "id": f"s{n}", "at": at, "args": ("secret",)} for n in range(5))
    client.schedule(FUNC, id="a", at=at, args=("secret",))
    client.schedule(FUNC, id="r", every=3600, args=("secret",))
    client.pause("a", note="until May")
    client.cancel("s0")

    result = zsched("log", **IMPATIENT)

    put_recurring = texts(result)[2]
    assert put_recurring.startswith("put_recurring  r: put for ")
    assert [
        "put  put 5 schedules: s0, s1, s2, …",
        "put  a: put for 2030-01-01 00:00:00+00:00",
        put_recurring,
        'pause  a: paused: "until May"',
        "cancel  s0: cancelled; it was for 2030-01-01 00:00:00+00:00",
    ] == texts(result)
    assert "secret" not in result.output
    assert "secret" not in zsched("log", "--json", **IMPATIENT).output
    assert re.match(ALONE, result.stderr)


def test_the_log_of_a_daemon_tells_terms_and_fires(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    client.schedule_many({"func": FUNC, "id": f"s{n}", "after": 0} for n in range(5))
    with Leading(redis_url, path) as daemon:
        queued(redis_client, 5)

        _, term, fire = texts(zsched("log"))

    assert f"term  daemon {daemon.daemon.id} leads" == term
    assert re.fullmatch(r"fire  fired 5 runs: s0-\d+, s1-\d+, s2-\d+, …", fire)


def test_of_one_schedule_there_is_a_line_per_change(zsched: Zsched, client: Client) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    client.schedule_many({"func": FUNC, "id": f"s{n}", "at": at} for n in range(5))
    client.cancel("s1")
    client.cancel("s2")

    assert [
        "put  put for 2030-01-01 00:00:00+00:00",
        "cancel  cancelled; it was for 2030-01-01 00:00:00+00:00",
    ] == texts(zsched("log", "--id", "s1", **IMPATIENT))
    assert ["cancel  cancelled; it was for 2030-01-01 00:00:00+00:00"] == texts(
        zsched("log", "--id", "s1", "--limit", "1", **IMPATIENT)
    )


def test_the_log_is_cut_by_time_and_number(zsched: Zsched, client: Client, redis_client: redis.Redis) -> None:
    for number in range(5):
        client.enqueue(FUNC, id=f"s{number}")
    now = datetime.now(UTC)

    newest = texts(zsched("log", "--limit", "2", **IMPATIENT))
    since_an_hour = texts(zsched("log", "--since", "1h", "--limit", "2", **IMPATIENT))
    since_soon = zsched("log", "--since", (now + timedelta(hours=1)).isoformat(), **IMPATIENT)
    local = zsched("log", "--since", "2020-01-01T00:00", "--tz", "Asia/Seoul", **IMPATIENT)

    assert ["s3", "s4"] == [line.split()[1].rstrip(":") for line in newest]
    assert ["s0", "s1"] == [line.split()[1].rstrip(":") for line in since_an_hour]
    assert [] == texts(since_soon)
    assert 5 == local.stdout.count("+09:00  0-")
    assert USAGE == zsched("log", "--since", "yesterday").exit_code
    assert USAGE == zsched("log", "--since", "2020-01-01T00:00").exit_code  # of which zone?


def test_what_redis_forgot_of_the_log_comes_from_the_archive(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path):
        client.enqueue(FUNC, id="old")
        client.enqueue(FUNC, id="new", durable=True)
        redis_client.xtrim(KEYS.log(), maxlen=1, approximate=False)

        result = zsched("log", "--since", "1h")

    assert ["term", "enqueue", "enqueue"] == [line.split()[0] for line in texts(result)]
    assert result.stderr.startswith("from the archive ")


def test_after_a_loss_the_log_tells_both_histories_and_where_the_new_one_begins(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path) as daemon:
        for id in ("a", "b"):
            client.schedule(FUNC, id=id, at=datetime(2030, 1, 1, tzinfo=UTC), durable=True)
        redis_client.flushall()
        daemon.wait_for("recovery_done")
        client.cancel("a")
        eventually(lambda: zsched("log").stderr.startswith("from the archive "))

        whole, of_one = zsched("log", "--since", "1h"), zsched("log", "--id", "a")

    mark = "… a new history begins: Redis lost what is above, or its end …"
    kinds = [line if line == mark else line.split("  ")[2] for line in whole.stdout.splitlines()]
    assert ["term", "put", "put", mark, "term", "restore", "merged", "cancel"] == kinds
    assert "  put back 2 schedules that Redis had lost: a, b\n" in whole.stdout
    assert re.search(r"  merged  all that archive \w+ knows is in Redis\n", whole.stdout)
    first, *rest = of_one.stdout.splitlines()
    assert first.endswith("  put  put for 2030-01-01 00:00:00+00:00")
    assert [mark, "put back", "cancelled"] == [
        line if line == mark else line.split("  ")[3][:9].strip(",;") for line in rest
    ]
    assert "complete since the beginning" in whole.stderr


def test_an_entry_that_is_not_known_is_shown_without_its_values(zsched: Zsched, redis_client: redis.Redis) -> None:
    redis_client.xadd(KEYS.log(), {"kind": "enchant", "t": "1795257273824902", "by\x1b[2J": "me", "b": "\x07"}, "1-1")
    redis_client.xadd(KEYS.log(), {"no": "kind"}, "1-2")
    redis_client.xadd(KEYS.log(), {"kind": "cancel", "t": "1795257273824902", "who": "me"}, "1-3")

    result, told = zsched("log", **IMPATIENT), zsched("log", "--json", **IMPATIENT).stdout.splitlines()

    assert [
        "enchant  unknown kind or form, 2 fields: by\N{REPLACEMENT CHARACTER}[2J, b",
        "?  unknown kind or form, 1 field: no",
        "cancel  unknown kind or form, 1 field: who",
    ] == texts(result)
    assert ["unknown kind or form"] * 3 == [json.loads(line)["problem"].split(",")[0] for line in told]


def test_what_foreign_hands_wrote_cannot_steer_the_terminal(
    zsched: Zsched, client: Client, redis_client: redis.Redis
) -> None:
    evil = {"kind": "pause", "t": "1795257273824902", "id": "a", "lane": "normal", "due": 10**30, "note": "\x1b[2J"}
    redis_client.xadd(KEYS.log(), evil, "0-1")  # type: ignore[arg-type]  # str and int
    redis_client.xadd(KEYS.log(), {"kind": "quarantine", "t": "9" * 30, "rows": "a normal 7 \x1b[2J\x07"}, "0-2")

    commands: list[tuple[str, ...]] = [("log",), ("why", "a"), ("history",), ("log", "--json"), ("why", "a", "--json")]
    results = [zsched(*command, **IMPATIENT) for command in commands]

    assert [DONE] * 5 == [result.exit_code for result in results]
    for result in results:
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", result.output)


def test_the_log_in_json_is_one_object_a_line(zsched: Zsched, client: Client) -> None:
    client.schedule(FUNC, id="a", at=datetime(2030, 1, 1, tzinfo=UTC))
    client.enqueue(FUNC, id="b")

    result = zsched("log", "--json", **IMPATIENT)
    put, enqueue = map(json.loads, result.stdout.splitlines())

    assert ("0-1", "put", ["a"]) == (put["entry"], put["kind"], [change["id"] for change in put["changes"]])
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", enqueue["at"])
    source = {"archive": None, "complete_since": put["at"], "as_of": "0-2", "problem": NO_ANSWER}
    assert {"source": source} == json.loads(result.stderr)


# -- log --follow -------------------------------------------------------------------------------------


def start(guard: Guard, url: str, *arguments: str, stdout: Any = subprocess.PIPE) -> subprocess.Popen[bytes]:
    env = {**os.environ, "ZSCHED_REDIS_URL": url}
    command = [sys.executable, "-m", "zsched.cli", *arguments]
    return guard.spawn(command, stdout=stdout, stderr=subprocess.PIPE, env=env)


def line_of(stream: IO[bytes] | None) -> str:
    assert stream is not None
    return stream.readline().decode()


def test_following_tells_what_comes_until_ctrl_c(client: Client, redis_url: str, guard: Guard) -> None:
    client.enqueue(FUNC, id="before")
    child = start(guard, redis_url, "log", "--follow")

    first = line_of(child.stdout)
    client.enqueue(FUNC, id="after")
    second = line_of(child.stdout)
    child.send_signal(signal.SIGINT)
    rest, told = child.communicate(timeout=DEADLINE_S)

    assert "  enqueue  before: enqueued; run before-" in first
    assert "  enqueue  after: enqueued; run after-" in second
    assert (DONE, b"") == (child.returncode, rest)
    assert re.match(ALONE.encode(), told)


def test_following_one_schedule_passes_over_the_others(client: Client, redis_url: str, guard: Guard) -> None:
    client.enqueue(FUNC, id="a")
    child = start(guard, redis_url, "log", "-f", "--id", "a", "--json")

    first = json.loads(line_of(child.stdout))
    client.enqueue(FUNC, id="b")
    client.enqueue(FUNC, id="a")
    second = json.loads(line_of(child.stdout))
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=DEADLINE_S)

    assert ["0-1", "0-3"] == [first["entry"], second["entry"]]


def test_following_ends_well_when_the_reader_goes(client: Client, redis_url: str, guard: Guard) -> None:
    client.enqueue(FUNC, id="before")
    child = start(guard, redis_url, "log", "--follow")
    assert child.stdout is not None
    line_of(child.stdout)

    child.stdout.close()
    client.enqueue(FUNC, id="after")
    code = child.wait(DEADLINE_S)

    assert child.stderr is not None
    assert DONE == code
    assert re.fullmatch(rf"{ALONE}: no archive answered within 2 s\n".encode(), child.stderr.read())


def test_following_says_once_that_redis_is_gone_and_goes_on_when_it_is_back(guard: Guard) -> None:
    with EmbeddedRedis(appendonly=True) as server:
        client = Client.from_url(server.url)
        client.enqueue(FUNC, id="before")
        child = start(guard, server.url, "log", "--follow")
        line_of(child.stdout)
        line_of(child.stderr)

        server.kill()
        gone = line_of(child.stderr)
        server.start()
        client.enqueue(FUNC, id="after")
        back = line_of(child.stdout)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=DEADLINE_S)

    assert re.fullmatch(r"zsched: .*; trying again until Ctrl-C\n", gone)
    assert "  enqueue  after: " in back
    assert (DONE, b"") == (child.returncode, told)


def test_a_log_that_was_cut_is_from_when_on_complete(zsched: Zsched, client: Client, redis_client: redis.Redis) -> None:
    for number in range(3):
        client.enqueue(FUNC, id=f"s{number}")
    redis_client.xtrim(KEYS.log(), maxlen=2, approximate=False)

    result = zsched("why", "s0", **IMPATIENT)

    since = re.search(r"whose log goes back to (.*?): no archive answered", result.stderr)
    assert since is not None
    assert f"s0: never heard of it: nothing is known of this id since {since[1]}; " in result.stdout
