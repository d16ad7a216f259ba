"""The doctor's checks of guards and signatures."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import redis

from tests.integration.doctor.ground import Case, examined, found_as, only
from tests.integration.doctor.test_rq import registered
from zsched import Client
from zsched.health.check import Severity
from zsched.storage.keyfile import new_key_line

OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    file = tmp_path / "keys"
    file.touch(0o600)
    file.write_text(new_key_line("k1"))
    return str(file)


def guarded(sound: redis.Redis, **workers: dict[str, str]) -> None:
    """Register workers by their names, with fields of their guards."""
    for name, fields in workers.items():
        registered(sound, name, **fields)


CASES = {
    "some enforce": Case(
        lambda sound: guarded(sound, w1={"zs_guard": "enforce"}, w2={}, w3={"zs_guard": "off"}), "guards", PROBLEM,
        "1 worker run only signed jobs, and 2 workers any job: w2, w3",
    ),
    "all enforce": Case(
        lambda sound: guarded(sound, w1={"zs_guard": "enforce"}), "guards", OK,
        "1 worker, all of them, run only signed jobs",
    ),
    "a worker warns": Case(
        lambda sound: guarded(sound, w1={"zs_guard": "warn", "zs_warned": "2"}), "guards", Severity.NOTE,
        "1 worker would have refused 2 jobs, and ran all: w1",
    ),
    "no signature": Case(
        lambda sound: Client(sound).schedule("app.run", id="plain", every=3600), "signatures", OK,
        "no recurring schedule is signed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_guards_and_signatures_are_looked_at(url: str, sound: redis.Redis, case: Case) -> None:
    found_as(case, url, sound)


# -- signatures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "severity", "text"),
    [
        (400, OK, "1 recurring schedule signed, for 30 days or more"),
        (10, WARNING, "the signature of 1 recurring schedule ends in"),
    ],
)
def test_a_signature_that_ends_soon_is_a_warning(
    sound: redis.Redis, url: str, key_file: str, days: int, severity: Severity, text: str
) -> None:
    client = Client.from_url(url, signing_keys_file=key_file, signing_valid_days=days)
    client.schedule("app.run", id="rule", every=timedelta(hours=1))

    assert text in only(examined(url)["signatures"], severity).text


def test_a_signature_that_has_ended_is_a_problem(sound: redis.Redis, url: str) -> None:
    Client.from_url(url).schedule("app.run", id="rule", every=timedelta(hours=1))
    sound.hset("zsched:{default}:template:rule", "zs_sig", f"k1.000000001.{'A' * 22}")

    found = only(examined(url)["signatures"], PROBLEM)

    assert "the signature of 1 recurring schedule has ended" in found.text
    assert "zsched keys sign" in found.remedy


def test_a_rule_without_a_signature_is_a_warning_beside_signed_ones(
    sound: redis.Redis, url: str, key_file: str
) -> None:
    Client.from_url(url).schedule("app.run", id="plain", every=timedelta(hours=1))
    Client.from_url(url, signing_keys_file=key_file).schedule("app.run", id="rule", every=timedelta(hours=1))

    found = only(examined(url)["signatures"], WARNING)

    assert "1 recurring schedule without a signature beside 1 with one: plain" == found.text
