"""
The corpus: jobs that a program with all rights in Redis forged, altered or replayed.

Each case makes one job, and returns its id.
"""

import json
import pickle
import time
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.integration.guard.forging import TASKS, Bomb, Forge, call
from tests.prefix import RQ
from zsched.core.runs.job import SIGNATURE_FIELD
from zsched.storage.keyfile import SigningKey
from zsched.storage.signing import Subject

Case = Callable[[Forge, str], str]
AT: Final = 1_700_000_000_000
NESTED_KEY: Final = b"\x80\x04}K\x01\x85" + b"".join(b"\x94h%c\x86" % number for number in range(60)) + b"K\x01s."
CASES: Final[dict[str, Case]] = {}
A_DAY_S: Final = 86_400


def case(make: Case) -> Case:
    """Add *make* to the corpus under its name."""
    CASES[make.__name__] = make
    return make


def altered(name: str, change: Callable[[Forge, str], dict[str, Any]], **options: Any) -> None:
    """Add a signed run, enqueued with *options*, in whose job another program makes a *change*."""

    def make(forge: Forge, name: str) -> str:
        return forge.alter(forge.enqueue(name, **options), **change(forge, name))

    CASES[name] = make


def pushed(name: str, fields: Callable[[Forge, str], dict[str, Any]]) -> None:
    """Add a job that was never enqueued, under the id of a run, with *fields*."""
    CASES[name] = lambda forge, name: forge.push(run_of(name), fields(forge, name))


def limited(name: str, queue: str, fields: Callable[[str], dict[str, Any]]) -> None:
    """Add a run in *queue*, whose *fields* the limited key signed."""

    def make(forge: Forge, name: str) -> str:
        signed = forge.signed(fields(name), Subject.RUN, run_of(name), key=forge.ring.keys["web1"])
        return forge.push(run_of(name), signed, queue)

    CASES[name] = make


def pickled(value: Any) -> bytes:
    return pickle.dumps(value, 5)


def run_of(name: str, ms: int = AT) -> str:
    return f"{name}-{ms}"


# -- forged: nobody with a key made it ----------------------------------------------------------------


pushed("forged_without_a_signature", lambda forge, name: {"data": call(name)})
pushed("forged_with_an_empty_signature", lambda forge, name: {"data": call(name), SIGNATURE_FIELD: ""})
pushed("forged_with_a_garbage_signature", lambda forge, name: {"data": call(name), SIGNATURE_FIELD: b"\xff\x00 ; DROP"})
pushed(
    "forged_with_a_made_up_code", lambda forge, name: {"data": call(name), SIGNATURE_FIELD: f"k2.0ffffffff.{'A' * 22}"}
)


NOT_OURS = {"an_unknown_key": ("k9", b"9" * 32), "another_secret_under_a_known_key_id": ("k2", bytes(32))}
for title, key in NOT_OURS.items():
    pushed(
        f"forged_with_{title}",
        lambda forge, name, key=key: forge.signed(
            {"data": call(name)}, Subject.RUN, run_of(name), key=SigningKey(*key)
        ),
    )


pushed(
    "forged_with_a_signature_of_nothing",
    lambda forge, name: forge.signed({"data": b""}, Subject.RUN, run_of(name)) | {"data": call(name)},
)
pushed(
    "forged_with_data_that_inflates_to_a_hundred_times_its_length",
    lambda forge, name: {"data": zlib.compress(bytes(60_000_000), 1)},
)
pushed(
    "forged_with_a_function_that_is_not_allowed", lambda forge, name: {"data": call(name, "os.system", args=("true",))}
)
pushed(
    "forged_with_a_function_of_a_module_that_runs_code_when_it_is_imported",
    lambda forge, name: {"data": call(name, "tests.integration.guard.importable.work")},
)
altered(
    "altered_by_a_callback_of_a_module_that_runs_code_when_it_is_imported",
    lambda forge, name: {"failure_callback_name": "tests.integration.guard.importable.work"},
)
pushed(
    "forged_with_a_function_whose_name_has_lines_and_colours",
    lambda forge, name: {"data": call(name, "app.\x1b[31mtask\nWorker w: job x: finished")},
)


@case
def forged_with_the_id_of_a_job_of_rq(forge: Forge, name: str) -> str:
    return forge.push(str(uuid.uuid4()), {"data": call(name)})


@case
def forged_with_the_signature_of_a_run_under_the_id_of_a_job_of_rq(forge: Forge, name: str) -> str:
    return forge.copy(forge.enqueue(name), str(uuid.uuid4()))


pushed(
    "forged_with_the_marks_of_a_one_shot",
    lambda forge, name: {"data": call(name), "zs": "1", "zs_func": f"{TASKS}.work", "zs_uncertain": "1"},
)


pushed("forged_with_a_pickle_as_its_call", lambda forge, name: {"data": pickled(Bomb(name))})
pushed("forged_with_a_pickle_as_its_function", lambda forge, name: {"data": pickled((Bomb(name), None, (), {}))})
pushed("forged_with_a_pickle_as_its_argument", lambda forge, name: {"data": call(name, args=(Bomb(name),))})
pushed("forged_with_a_pickle_as_its_meta", lambda forge, name: {"data": call(name), "meta": pickled({"x": Bomb(name)})})
pushed("forged_with_a_pickle_as_its_result", lambda forge, name: {"data": call(name), "result": pickled(Bomb(name))})
pushed(
    "forged_with_a_pickle_that_is_deflated", lambda forge, name: {"data": zlib.compress(call(name, args=(Bomb(name),)))}
)
pushed("forged_with_a_broken_pickle", lambda forge, name: {"data": call(name)[:-4]})
pushed(
    "forged_with_a_pickle_that_inflates_without_end",
    lambda forge, name: {"data": zlib.compress(b"\x80\x05" + b"\0" * 50_000_000)},
)


# -- altered: a holder of a key made it, and another program changed it ----------------------------------


altered("altered_arguments", lambda forge, name: {"data": call(f"{name}-x")})
altered("altered_function_to_another_allowed_one", lambda forge, name: {"data": call(name, f"{TASKS}.other")})
altered("altered_function_to_one_that_is_not_allowed", lambda forge, name: {"data": call(name, f"{TASKS}.not_allowed")})
altered("altered_keyword_arguments", lambda forge, name: {"data": call(name, kwargs={"a": 1})})
altered("altered_to_a_method_of_an_object", lambda forge, name: {"data": call(name, "touch", instance=Path("x"))})
altered("altered_to_a_pickle", lambda forge, name: {"data": call(name, args=(Bomb(name),))})
altered("altered_to_json", lambda forge, name: {"data": json.dumps([f"{TASKS}.work", None, [name], {}])})
altered("altered_to_nothing", lambda forge, name: {"data": b""})
altered("altered_queue", lambda forge, name: {"origin": "other"})
altered("altered_timeout", lambda forge, name: {"timeout": "-1"})
altered("altered_by_meta", lambda forge, name: {"meta": pickled({"admin": True})})
altered("altered_meta", lambda forge, name: {"meta": pickled({"tenant": 2})}, meta={"tenant": 1})
altered("altered_by_removing_its_meta", lambda forge, name: {"meta": None}, meta={"tenant": 1})
altered("altered_by_meta_that_is_code", lambda forge, name: {"meta": pickled({"x": Bomb(name)})}, meta={"x": 1})
altered("altered_retry_intervals", lambda forge, name: {"retry_intervals": "[1]"}, retry=1)
altered("altered_number_of_retries", lambda forge, name: {"retries_left": "9", "zs_retries": "9"}, retry=1)
altered("altered_by_retries", lambda forge, name: {"retries_left": "9", "zs_retries": "9", "retry_intervals": "[0]"})
altered("altered_by_retries_that_are_left", lambda forge, name: {"retries_left": "7"})
altered("altered_by_repeats", lambda forge, name: {"repeats_left": "9", "repeat_intervals": "[0]"})
altered(
    "altered_by_webhooks",
    lambda forge, name: {"webhooks": json.dumps([{"url": "http://127.0.0.1:9/", "job_status": "failed"}])},
)


@case
def moved_to_another_queue(forge: Forge, name: str) -> str:
    run_id = forge.enqueue(name, queue="elsewhere")
    forge.redis.lrem(f"{RQ}:queue:elsewhere", 0, run_id)
    forge.redis.rpush(f"{RQ}:queue:default", run_id)
    return run_id


limited("moved_by_a_limited_key_to_another_queue", "default", lambda name: {"data": call(name), "origin": "web"})


# -- callbacks -----------------------------------------------------------------------------------------


altered("smuggled_success_callback", lambda forge, name: {"success_callback_name": f"{TASKS}.called_back"})
altered("smuggled_failure_callback", lambda forge, name: {"failure_callback_name": f"{TASKS}.called_back"})
altered("smuggled_stopped_callback", lambda forge, name: {"stopped_callback_name": f"{TASKS}.called_back"})
altered("smuggled_callback_that_is_not_allowed", lambda forge, name: {"success_callback_name": "os.abort"})
altered(
    "smuggled_instead_of_another_callback",
    lambda forge, name: {"success_callback_name": f"{TASKS}.work"},
    on_success=f"{TASKS}.called_back",
)
altered(
    "altered_timeout_of_a_callback",
    lambda forge, name: {"success_callback_timeout": "99999999"},
    on_success=f"{TASKS}.called_back",
)
altered("removed_callback", lambda forge, name: {"success_callback_name": ""}, on_success=f"{TASKS}.called_back")


# -- signed, and not allowed here --------------------------------------------------------------------


@case
def signed_with_a_function_that_is_not_allowed(forge: Forge, name: str) -> str:
    return forge.enqueue(name, f"{TASKS}.not_allowed")


@case
def signed_with_a_callback_that_is_not_allowed(forge: Forge, name: str) -> str:
    return forge.enqueue(name, on_failure=f"{TASKS}.not_allowed")


limited(
    "signed_by_a_limited_key_for_another_function",
    "web",
    lambda name: {"data": call(name, f"{TASKS}.other"), "origin": "web"},
)
limited("signed_by_a_limited_key_for_another_queue", "default", lambda name: {"data": call(name)})
limited(
    "signed_by_a_limited_key_with_code_in_an_argument",
    "web",
    lambda name: {"data": call(name, args=(Bomb(name),)), "origin": "web"},
)
limited(
    "signed_by_a_limited_key_with_code_in_its_meta",
    "web",
    lambda name: {"data": call(name), "meta": pickle.dumps({"b": Bomb(name)}, 0), "origin": "web"},
)


# -- expired, downgraded, of another namespace ---------------------------------------------------------


pushed(
    "expired_yesterday",
    lambda forge, name: forge.signed({"data": call(name)}, Subject.RUN, run_of(name), for_s=-A_DAY_S),
)


@case
def expired_with_a_longer_time_written_over(forge: Forge, name: str) -> str:
    fields = forge.signed({"data": call(name)}, Subject.RUN, run_of(name), for_s=-A_DAY_S)
    key, _, code = fields[SIGNATURE_FIELD].split(b".")
    return forge.push(run_of(name), fields | {SIGNATURE_FIELD: b".".join((key, b"0ffffffff", code))})


pushed(
    "expired_signature_of_a_recurring_schedule",
    lambda forge, name: forge.signed({"data": call(name)}, Subject.SCHEDULE, name, for_s=-1),
)


altered("downgraded_by_removing_the_signature", lambda forge, name: {SIGNATURE_FIELD: None})
altered("downgraded_to_half_of_the_code", lambda forge, name: {SIGNATURE_FIELD: signature(forge, name)[:-11]})
altered("downgraded_to_an_empty_code", lambda forge, name: {SIGNATURE_FIELD: signature(forge, name)[:-22]})


def signature(forge: Forge, name: str) -> bytes:
    """Return the signature of the run that was enqueued last for *name*."""
    run_id = next(one.id for one in forge.client.runs(name))
    return bytes(forge.fields(run_id)[SIGNATURE_FIELD])


pushed(
    "of_another_namespace_under_this_ones_id",
    lambda forge, name: forge.signed({"data": call(name)}, Subject.RUN, f"{run_of(name)}-nshop", namespace="shop"),
)


@case
def of_this_namespace_under_anothers_id(forge: Forge, name: str) -> str:
    return forge.push(f"{run_of(name)}-nshop", forge.signed({"data": call(name)}, Subject.RUN, run_of(name)))


pushed(
    "recurring_of_another_namespace",
    lambda forge, name: forge.signed({"data": call(name)}, Subject.SCHEDULE, name, namespace="shop"),
)


# -- replayed -----------------------------------------------------------------------------------------


@case
def replayed_at_another_time(forge: Forge, name: str) -> str:
    run_id = forge.enqueue(name)
    return forge.copy(run_id, f"{name}-{int(run_id.rpartition('-')[2]) + 60_000}")


@case
def replayed_under_another_schedule(forge: Forge, name: str) -> str:
    return forge.copy(forge.enqueue(name), run_of("monthly-report"))


@case
def replayed_as_a_repetition(forge: Forge, name: str) -> str:
    run_id = forge.enqueue(name)
    return forge.copy(run_id, f"{run_id}-r1")


@case
def replayed_repetition_of_another_occurrence(forge: Forge, name: str) -> str:
    fields = forge.signed({"data": call(name)}, Subject.RETRY, run_of(name))
    return forge.push(f"{run_of(name, AT + 1)}-r1", fields)


pushed(
    "with_a_key_in_its_meta_that_would_be_hashed_for_ever", lambda forge, name: {"data": call(name), "meta": NESTED_KEY}
)


def waiting(forge: Forge, name: str) -> str:
    """Return the run id of a signed one-shot of next month."""
    made = forge.client.schedule(f"{TASKS}.work", args=(name,), id=name, after=30 * A_DAY_S)
    assert made.run_id is not None
    return made.run_id


@case
def pushed_before_its_time(forge: Forge, name: str) -> str:
    run_id = waiting(forge, name)
    return forge.push(run_id, forge.fields(run_id) | {"status": "queued"})


@case
def pushed_after_its_cancellation(forge: Forge, name: str) -> str:
    copy = forge.fields(run_id := waiting(forge, name))
    forge.client.cancel(name)
    return forge.push(run_id, copy | {"status": "queued"})


@case
def pushed_in_an_older_version(forge: Forge, name: str) -> str:
    copy = forge.fields(run_id := waiting(forge, name))
    forge.client.update(name, args=("later-version",))
    return forge.push(run_id, copy | {"status": "queued"})


@case
def pushed_as_a_coming_run_of_a_recurring_schedule(forge: Forge, name: str) -> str:
    ms = int(time.time() * 1000) + A_DAY_S * 1000
    return forge.push(run_of(name, ms), forge.signed({"data": call(name)}, Subject.SCHEDULE, name))


pushed(
    "replayed_repetition_as_the_occurrence",
    lambda forge, name: forge.signed({"data": call(name)}, Subject.RETRY, run_of(name)),
)


@case
def replayed_run_of_a_recurring_schedule_under_another(forge: Forge, name: str) -> str:
    return forge.push(run_of(f"{name}-2"), forge.signed({"data": call(name)}, Subject.SCHEDULE, name))


@case
def replayed_one_shot_as_a_run_of_a_recurring_schedule(forge: Forge, name: str) -> str:
    return forge.push(run_of(run_of(name)), forge.signed({"data": call(name)}, Subject.RUN, run_of(name)))
