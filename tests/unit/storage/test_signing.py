"""Signatures of jobs, and the file of their keys."""

import hmac
import json
import os
import pickle
import re
import zlib
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

import pytest

from zsched.config.bounds import MOST_VALID_DAYS
from zsched.core.clock import ManualClock
from zsched.core.runs.job import SIGNATURE_FIELD
from zsched.errors import ConfigError, InvalidSchedule
from zsched.rq.guard import GuardMode, JobGuard
from zsched.storage.keyfile import KeyFile, KeyRing, SigningKey, new_key_line, read_keys
from zsched.storage.signing import (
    EARLY_S,
    SIGNED,
    BadSignature,
    Stamp,
    Subject,
    TooEarly,
    check_run,
    check_schedule,
    checked_valid_days,
    shared_digest,
)

KEY, OTHER = SigningKey("k1", b"1" * 32), SigningKey("k2", b"2" * 32)
RING = KeyRing({"k1": KEY, "k2": OTHER}, KEY)
RUN, NOW_S, UNTIL_S = "a-1700000000000", 1_700_000_000, 1_700_086_400
FIELDS: dict[str, Any] = {
    "data": pickle.dumps(("app.f", None, (1,), {}), 5), "origin": "default", "timeout": "180", "status": "queued",
    "meta": b"m", "success_callback_name": "app.ok", "retry_intervals": "[60, 300]", "zs_retries": "2",
}  # fmt: skip
# What no signature covers: SECURITY.md names these, but for what RQ and zsched write of a run.
FREE = (
    "status", "enqueued_at", "result_ttl", "failure_ttl", "rate_limit_key", "dependency_id",
    "enqueue_at_front_on_retry", "description", "zs_note", "worker_name",
)  # fmt: skip
LINES = f"k2 {'22' * 32}\nk1 {'11' * 32}\n"


def signed(
    fields: dict[str, Any], subject: Subject = Subject.RUN, name: str = RUN, namespace: str = "default"
) -> dict[str, Any]:
    stamp = Stamp(KEY, subject, shared_digest(namespace, fields), UNTIL_S)
    return fields | {SIGNATURE_FIELD: stamp.sign(name, fields["data"])}


def is_good(fields: dict[str, Any], run_id: str = RUN, now_s: int = NOW_S, ring: KeyRing = RING) -> bool:
    try:
        check_run(ring, run_id, fields, now_s)
    except BadSignature:
        return False
    return True


def test_a_code_is_that_of_rfc_2104() -> None:
    for size in (0, 1, 63, 64, 65, 500):
        text = bytes(range(256)) * 2
        parted = KEY.mac.after(text[: size // 2]).code(text[size // 2 : size])
        assert hmac.digest(KEY.secret, text[:size], "sha256") == parted


def test_a_job_is_good_as_it_was_signed() -> None:
    checked = check_run(RING, RUN, signed(FIELDS), NOW_S)

    assert (Subject.RUN, KEY, UNTIL_S) == (checked.subject, checked.key, checked.until_s)
    code = signed(FIELDS)[SIGNATURE_FIELD].rpartition(b".")[2]
    assert 128 == 8 * len(urlsafe_b64decode(code + b"=="))


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        *((name, None, False) for name in (*SIGNED, "data")),
        *((name, b"9", True) for name in FREE),
        *(("retries_left", left, True) for left in (b"0", b"2", b"-1")),
        *(("retries_left", left, False) for left in (b"3", b"99999999999999", b"x")),  # more than were signed
    ],
)
def test_a_change_of_a_signed_field_makes_a_signature_bad(name: str, value: bytes | None, good: bool) -> None:
    job = signed(FIELDS)
    old = job.get(name, "")
    changed = b"%s." % old.encode() if isinstance(old, str) else b"x"

    assert good is is_good(job | {name: changed if value is None else value})


def test_a_value_cannot_move_from_one_field_to_the_next_nor_get_another_encoding() -> None:
    one, other = signed(FIELDS | {"origin": "ab", "timeout": "c"}), signed(FIELDS | {"meta": b'{"a":1}'})

    assert not is_good(one | {"origin": "a", "timeout": "bc"})
    assert not any(is_good(other | {"meta": '{"a":1}'.encode(name)}) for name in ("utf-16-le", "utf-16", "utf-32-le"))


def test_a_job_stays_good_as_rq_writes_it_again() -> None:
    data = json.dumps(["app.f", None, [1], {}], separators=(",", ":")).encode()
    job = signed(FIELDS | {"data": data, "meta": b'{"a":1}', "retry_intervals": "[60,300]"})

    again = {
        "data": zlib.compress(data),
        "meta": b'{"a": 1}',
        "retry_intervals": "[60, 300]",
        "failure_callback_name": "",
    }
    assert is_good(job | again)


@pytest.mark.parametrize(
    ("subject", "name", "good", "bad"),
    [
        (Subject.RUN, RUN, [RUN], ["a-1700000000001", f"{RUN}-r1", f"{RUN}-nshop", "b-1700000000000"]),
        (Subject.SCHEDULE, "a", [RUN, f"{RUN}-r7", "a-1600000000000"], ["b-1700000000000", f"{RUN}-nshop", "a"]),
        (Subject.RETRY, RUN, [f"{RUN}-r1", f"{RUN}-r9"], [RUN, "a-1700000000001-r1"]),
    ],
)
def test_a_signature_is_good_for_one_subject(subject: Subject, name: str, good: list[str], bad: list[str]) -> None:
    job = signed(FIELDS, subject, name)

    assert (good, []) == (
        [run_id for run_id in good if is_good(job, run_id)],
        [run_id for run_id in bad if is_good(job, run_id)],
    )


def test_a_signature_of_a_waiting_schedule_is_checked_by_its_kind() -> None:
    rule, one = signed(FIELDS, Subject.SCHEDULE, "a"), signed(FIELDS)

    check_schedule(RING, "default", "a", None, rule, NOW_S)
    check_schedule(RING, "default", "a", RUN, one, NOW_S)
    for run_id, job in ((RUN, rule), (None, one)):
        with pytest.raises(BadSignature):
            check_schedule(RING, "default", "a", run_id, job, NOW_S)


def test_an_expired_signature_is_bad_and_says_when_it_was_valid() -> None:
    assert is_good(signed(FIELDS), now_s=UNTIL_S)

    with pytest.raises(BadSignature, match=r"its signature was valid until 2023-11-15T22:13Z"):
        check_run(RING, RUN, signed(FIELDS), UNTIL_S + 1)


@pytest.mark.parametrize(
    ("subject", "name", "run_id"),
    [(Subject.RUN, RUN, RUN), (Subject.SCHEDULE, "a", RUN), (Subject.SCHEDULE, "a", f"{RUN}-r1")],
)
def test_a_run_is_too_early_more_than_a_minute_before_its_time(subject: Subject, name: str, run_id: str) -> None:
    fields = signed(FIELDS, subject, name)

    assert is_good(fields, run_id, NOW_S - EARLY_S)
    message = "it is signed for 2023-11-14T22:13:20+00:00, and it is 2023-11-14T22:12:19"
    with pytest.raises(TooEarly, match=re.escape(message)):
        check_run(RING, run_id, fields, NOW_S - EARLY_S - 1)


@pytest.mark.parametrize(("subject", "run_id"), [(Subject.RUN_NOW, RUN), (Subject.RETRY, f"{RUN}-r1")])
def test_a_run_that_a_client_signed_to_run_now_is_at_no_time_too_early(subject: Subject, run_id: str) -> None:
    assert is_good(signed(FIELDS, subject), run_id, 0)


@pytest.mark.parametrize(
    ("clock_s", "server_s", "is_refused"),
    [
        (NOW_S - 7200, NOW_S, False),  # its clock is behind: it asks Redis
        (NOW_S - 7200, NOW_S - 3600, True),
        (NOW_S, NOW_S - 3600, False),  # its clock is ahead
    ],
)
def test_a_guard_refuses_a_run_that_is_early_by_its_clock_and_by_that_of_redis(
    tmp_path: Path, clock_s: int, server_s: int, is_refused: bool
) -> None:
    file = tmp_path / "keys"
    file.write_text(LINES)
    file.chmod(0o600)
    keys = KeyFile(str(file))
    stamp = Stamp(keys.current().keys["k1"], Subject.RUN, shared_digest("default", FIELDS), UNTIL_S)
    fields = FIELDS | {SIGNATURE_FIELD: stamp.sign(RUN, FIELDS["data"])}
    clock = ManualClock(wall_ms=clock_s * 1000)
    guard = JobGuard(GuardMode.ENFORCE, ["app.*"], keys=keys, clock=clock)

    found = guard.decide(RUN, fields, lambda: server_s)

    assert is_refused == found.refusal.startswith("it is signed for 2023-11-14T22:13:20+00:00, and it is")


def test_a_signature_by_an_unknown_key_names_the_key() -> None:
    with pytest.raises(BadSignature, match="'k1', which is not in this process's file of keys"):
        check_run(KeyRing({"k2": OTHER}, OTHER), RUN, signed(FIELDS), NOW_S)


# -- the file of keys ---------------------------------------------------------------------------------


def write(folder: Path, text: str, mode: int = 0o600) -> str:
    file = folder / "keys"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def test_the_first_key_of_a_file_signs_and_comments_are_left_out(tmp_path: Path) -> None:
    ring = read_keys(
        write(tmp_path, f"# by ann\n\n{LINES}web1 {'aa' * 32} functions=app.*,os.getpid queues=web,mail\n")
    )

    limited = ring.keys["web1"]
    assert ("k2", ["k2", "k1", "web1"]) == (ring.first.id, list(ring.keys))
    assert (("app.*", "os.getpid"), ("web", "mail")) == (limited.functions, limited.queues)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it has no key; add one with: zsched keys new"),
        ("K1 11", "line 1: 'K1' is not a key id; use 1 to 8 of a-z and 0-9"),
        ("k1", "line 1: the secret of key 'k1' does not have 64 hexadecimal digits"),
        (f"k1 {'1' * 63}", "line 1: the secret of key 'k1' does not have 64 hexadecimal digits"),
        (f"{LINES}k1 {'33' * 32}", "line 3: two keys have the id 'k1'; give each its own"),
        (f"{LINES}k3 {'33' * 32}", "3 keys (k2, k1, k3) without limits; keep the new one and the one that it replaces"),
        (f"k1 {'11' * 32} queue=a", "line 1: 'queue=a' is not a limit of key 'k1'; write functions=…, queues=…"),
        (f"k1 {'11' * 32} queues=", "line 1: 'queues=' is not a limit of key 'k1'"),
        (f"k1 {'11' * 32} é", "it has other characters than ASCII"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line_and_without_the_secret(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_keys(write(tmp_path, text))

    assert message in str(refused.value)
    assert "1111" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match=f"its mode is {mode:04o}: other users of this machine can read it"):
        read_keys(write(tmp_path, LINES, mode))


def test_a_file_that_another_user_owns_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, owner = write(tmp_path, LINES), os.geteuid()
    if owner == 0:
        os.chown(file, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(ConfigError, match="owns it, and could write into it; let root or the user"):
        read_keys(file)


def test_a_credential_of_systemd_may_have_the_mode_of_its_acl(tmp_path: Path) -> None:
    (tmp_path / "zsched-signing-keys").write_text(LINES)
    (tmp_path / "zsched-signing-keys").chmod(0o440)

    ring = read_keys(str(tmp_path / "zsched-signing-keys"), {"CREDENTIALS_DIRECTORY": str(tmp_path)})

    assert "k2" == ring.first.id


def test_a_changed_file_is_read_again_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    keys = KeyFile(write(tmp_path, LINES))
    seen = [keys.current().first.id]

    for text in (f"{new_key_line('k3')}\n{LINES.splitlines()[0]}\n", "broken"):
        write(tmp_path, text)
        os.utime(tmp_path / "keys", ns=(len(text), len(text)))
        seen.append(keys.current().first.id)

    assert ["k2", "k3", "k3"] == seen
    assert "the secret of key 'broken' does not have 64" in keys.problem


@pytest.mark.parametrize(
    ("paths", "queue", "problem"),
    [
        (["app.f", "os.getpid"], "web", ""),
        (["app.f", "os.system"], "web", "key 'web1' may not sign os.system"),
        (["app.f"], "mail", "key 'web1' may not sign for queue 'mail'"),
    ],
)
def test_a_limited_key_signs_its_functions_and_queues_alone(paths: list[str], queue: str, problem: str) -> None:
    key = SigningKey("web1", b"1" * 32, ("app.*", "os.getpid"), ("web",))

    assert problem == key.problem_of(paths, queue)


def test_a_file_of_root_is_read_by_every_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, LINES)
    seen = os.stat_result((0o100600, 0, 0, 1, 0, 0, 0, 0, 0, 0))
    monkeypatch.setattr(os, "fstat", lambda _: seen)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert "k2" == read_keys(file).first.id


@pytest.mark.parametrize("days", [0, -1, MOST_VALID_DAYS + 1, True, 1.5, "1"])
def test_a_validity_that_is_not_a_number_of_days_in_the_limits_is_refused(days: object) -> None:
    assert [1, MOST_VALID_DAYS] == [checked_valid_days(allowed) for allowed in (1, MOST_VALID_DAYS)]

    with pytest.raises(InvalidSchedule, match="signing_valid_days"):
        checked_valid_days(days)
