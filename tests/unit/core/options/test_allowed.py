"""The limits of an account: the patterns of functions mean what they mean in settings and keys."""

import pytest

from zsched.client.put_checks import functions_named
from zsched.core.options.allowed import LimitedBy, Limits, is_allowed
from zsched.core.options.table import OPTIONS
from zsched.core.runs.job import CALLBACKS


def by(*functions: str, queue: str = "default", tags: tuple[str, ...] = ()) -> LimitedBy:
    return LimitedBy(dict(zip(("func", "on_success"), functions, strict=False)), queue, tags)


def test_every_option_that_names_a_function_is_found_in_a_definition() -> None:
    naming = {name for name, option in OPTIONS.items() if option.form.metavar == "FUNC"}

    assert {"on_success", "on_failure"} == naming
    assert naming <= CALLBACKS.keys()
    given = {"on_success": {"func": "app.ok", "timeout": 5}, "on_failure": "app.bad", "queue": "app.x"}
    assert {"func": "app.x", "on_success": "app.ok", "on_failure": "app.bad"} == functions_named("app.x", given)


@pytest.mark.parametrize("pattern", ["tasks.*", "tasks.*.*", "*.remind", "tasks.re?ind", "tasks.remind", "*"])
@pytest.mark.parametrize("path", ["tasks.remind", "tasks.admin.wipe", "tasks.os.system", "other.remind", "remind"])
def test_a_limit_and_a_setting_allow_the_same_functions(pattern: str, path: str) -> None:
    assert is_allowed(path, [pattern]) == (Limits(funcs=(pattern,)).refusal(by(path)) is None)


def test_a_limit_of_functions_does_not_cross_dots() -> None:
    assert ("func", "tasks.admin.wipe", ("tasks.*",)) == Limits(funcs=("tasks.*",)).refusal(by("tasks.admin.wipe"))


def test_every_function_must_be_within_the_limits_and_the_first_that_is_not_is_named() -> None:
    limits = Limits(funcs=("tasks.*",))

    assert None is limits.refusal(by("tasks.remind", "tasks.ok"))
    assert ("on_success", "app.wipe", ("tasks.*",)) == limits.refusal(by("tasks.remind", "app.wipe"))


def test_queues_and_tags_are_globs() -> None:
    limits = Limits(queues=("shop-*",), tags=("eu.*",))

    assert None is limits.refusal(by("app.x", queue="shop-a.b.c", tags=("other", "eu.a.b")))
    assert ("queue", "pay", ("shop-*",)) == limits.refusal(by("app.x", queue="pay", tags=("eu.a",)))
    assert ("tags", ["us.a"], ("eu.*",)) == limits.refusal(by("app.x", queue="shop-a", tags=("us.a",)))
