"""The routes of known failures: put, listed and taken back; who may do it."""

import httpx
import pytest

from tests.builders.web import Web
from tests.integration.web.routes import LIMITS

GIVEN = {"func": "app.*", "error": "OSError*", "for": "2d", "note": "the vendor mends it"}


def test_a_known_failure_is_put_listed_and_taken_back(http: httpx.Client) -> None:
    put = http.post("/known-failures", json=GIVEN).json()
    listed = http.get("/known-failures").json()
    status = http.get("/status").json()
    deleted = [http.delete(f"/known-failures/{put['name']}") for _ in range(2)]

    assert GIVEN | {"by": put["by"]} == {**{name: put[name] for name in ("func", "error", "note", "by")}, "for": "2d"}
    assert {"known_failures": [put]} == listed
    assert [put] == status["known_failures"]
    assert [200, 404] == [each.status_code for each in deleted]
    assert {"known_failures": []} == http.get("/known-failures").json()


@pytest.mark.parametrize(
    ("body", "option"),
    [({}, "func"), ({"func": "a", "for": "91d"}, "for"), ({"func": "a", "for": 0}, "for"), ({"funk": "a"}, "funk")],
)
def test_a_bad_known_failure_is_refused_with_the_option(http: httpx.Client, body: object, option: str) -> None:
    answer = http.post("/known-failures", json=body)

    assert (422, option) == (answer.status_code, answer.json()["option"])


def test_a_viewer_lists_known_failures_and_a_token_with_limits_does_not(web: Web, http: httpx.Client) -> None:
    name = http.post("/known-failures", json=GIVEN).json()["name"]
    with web.client("eve", "viewer") as eve, web.client("shop", "scheduler", **LIMITS) as shop:
        codes = [
            [one.get("/known-failures").status_code, one.post("/known-failures", json=GIVEN).status_code,
             one.delete(f"/known-failures/{name}").status_code]
            for one in (eve, shop)
        ]  # fmt: skip

    assert [[200, 403, 403], [403, 403, 403]] == codes
