"""The lint rule against tests that depend on the speed of the machine."""

import pytest

from tests.sources import Source
from tools.lint import timing
from tools.lint.timing import findings

DAEMON = "def test_x(daemon):\n    "


def kinds(text: str, has_daemons: bool = True) -> list[str]:
    return [each.kind for each in findings(Source(text), has_daemons)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("sleep", "time.sleep(1)"),
        ("sleep", "sleep(0.1)"),
        ("sleep", "async def test_x():\n    await asyncio.sleep(0)"),
        ("deadline", "Event().wait(0.5)"),
        ("deadline", "thread.join(timeout=2)"),
        ("deadline", "SHORT_S = 2\neventually(look, within_s=SHORT_S)"),
        ("deadline", "Client.from_url(url, timeout_s=0.4)"),
        ("deadline", "Redis(socket_timeout=3)"),
        ("deadline", "asyncio.wait_for(answer, 10 * 0.02)"),
        ("deadline", "connection.settimeout(1)"),
        ("duration", "def test_x():\n    assert time.monotonic() - began < 0.3"),
        ("duration", "def test_x():\n    took_s = time.perf_counter() - began_s\n    assert 1 < took_s"),
        (
            "duration",
            "def test_x():\n    a, b = clock.monotonic_ms(), look()\n    assert b - a >= 20",
        ),
        ("duration", "def took():\n    return time.time() - began\ndef test_x():\n    assert took() < 5"),
        ("lease", "Settings(lease_ms=500)"),
        ("lease", "start(DAEMON_LEASE_MS='1000')"),
        ("lease", "LEASE_MS = 400\nSHORT = {'DAEMON_LEASE_MS': str(LEASE_MS)}"),
        ("lease", "monkeypatch.setenv('ZSCHED_DAEMON_LEASE_MS', '4999')"),
        ("due soon", f"{DAEMON}client.schedule(f, after=0.3)"),
        ("due soon", f"{DAEMON}due_ms = now_ms(watch) + 1_500"),
        ("due soon", f"{DAEMON}now = now_ms(watch)\n    due_ms = now // 1000 + 3"),
        ("port", "with socket.create_server(('127.0.0.1', 0)) as free:\n    port = int(free.getsockname()[1])"),
        ("port", "def port():\n    with listener() as free:\n        return free.getsockname()[1]"),
        ("port", "server.bind(('127.0.0.1', 8080))"),
        ("comment", "look()  # timing: no reason any more"),
    ],
)
def test_a_place_that_depends_on_the_speed_of_the_machine_is_found(kind: str, text: str) -> None:
    assert [kind] == kinds(text)


@pytest.mark.parametrize(
    "text",
    [
        "clock.sleep(5)\nspleen.sleeps(5)",
        "event.wait(WITHIN_S)\nevent.wait(60)\nthread.join()\nevent.wait(0)",
        "WITHIN_S = 60.0\neventually(look, within_s=WITHIN_S)",
        "client.schedule(f, every=60, timeout=3)\nCallback(f, timeout=1)",  # of a job
        "daemon.wait_for('term_began', 2)",
        "def test_x():\n    assert before <= clock.now_ms() <= after",
        "def test_x():\n    while time.monotonic() < until_s:\n        look()",
        "def test_x():\n    assert until_s - time.monotonic() > 0",
        "Settings(lease_ms=60_000, renew_ms=100)\nSTEADY = {'DAEMON_LEASE_MS': '5000'}",
        f"{DAEMON}client.schedule(f, after=0)\n    client.schedule(f, after=3600)",
        f"{DAEMON}due_ms = now_ms(watch) + 60_000\n    past_ms = now_ms(watch) - 5",
        "def test_x():\n    client.schedule(f, after=0.3)",  # nothing fires here
        "with socket.create_server(('127.0.0.1', 0)) as taken:\n    port = taken.getsockname()[1]\n    refuse(port)",
        "time.sleep(  # timing: the pause is the subject\n    1)",
        "SHORT = {\n    'lease_ms': 500,  # timing: the expiry is the subject\n}",
        "text = '# timing: in a text'",
    ],
)
def test_a_place_that_a_slow_machine_does_not_change_is_accepted(text: str) -> None:
    assert [] == kinds(text)


def test_due_times_count_only_beside_daemons() -> None:
    assert [] == kinds(f"{DAEMON}client.schedule(f, after=0.3)", has_daemons=False)


def test_the_command_prints_place_and_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "source", lambda file: Source("\ntime.sleep(1)"))

    assert 1 == timing.main(["tests/breadth.py"])

    assert f"tests/breadth.py:2: sleep: time.sleep(1)\n    {timing.REMEDIES['sleep']}\n" == capsys.readouterr().out


def test_numbers_of_other_modules_are_known() -> None:
    text = "from tests.waiting import WITHIN_S as LONG_S\nevent.wait(LONG_S / 100)"

    assert ["deadline"] == kinds(text)
