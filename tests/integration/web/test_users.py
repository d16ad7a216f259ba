"""``zsched web`` as the Redis user ``zsched-web``, with tokens that only the operator makes."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from tests.integration.users import GuardedRedis
from tests.integration.web.ground import Web
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.redis


def test_the_api_works_as_its_own_user_of_redis(guarded: GuardedRedis, guard: Guard, tmp_path: Path) -> None:
    web = Web(guard, guarded.url("zsched-web"), tmp_path)
    web.redis_url = guarded.url("operator")  # who makes the token
    with web.client() as http:
        made = http.put("/schedules/a", json={"func": "app.x", "every": 60})
        answers = [
            http.get("/schedules"), http.get("/schedules/a/story"), http.get("/runs"), http.post("/schedules/a:pause"),
            http.post("/schedules/a:resume", json={"missed": "skip"}), http.post("/schedules/a:run"),
            http.patch("/schedules/a", json={"queue": "x"}), http.delete("/schedules/a"),
        ]  # fmt: skip

    assert [201] + [200] * 8 == [each.status_code for each in (made, *answers)], [each.text for each in answers]
    assert [] == guarded.refused()


def test_people_log_in_and_see_rq_as_its_own_user_of_redis(guarded: GuardedRedis, guard: Guard, tmp_path: Path) -> None:
    web = Web(guard, guarded.url("zsched-web"), tmp_path)
    web.redis_url = guarded.url("operator")  # who adds the person
    with web.browser(sees_arguments=True) as ann:
        answers = [ann.get("/rq/"), ann.get("/rq/0/data/workers.json"), ann.get("/login"), ann.post("/logout")]

    assert [200, 200, 200, 303] == [each.status_code for each in answers], [each.text for each in answers]
    assert [] == guarded.refused()


@pytest.mark.parametrize("user", ["zsched-client", "zsched-daemon", "zsched-worker", "zsched-scheduling-worker"])
def test_a_service_cannot_make_itself_an_operator(guarded: GuardedRedis, user: str) -> None:
    for command in ("HSET zsched-web:{default}:tokens x y", "HSET zsched-web:{default}:people x y"):
        with guarded.connect(user) as service, pytest.raises(redis.exceptions.NoPermissionError):
            service.execute_command(*command.split(" "))
