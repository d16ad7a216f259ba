"""Known failures over the client: put, listed and taken back."""

from typing import Any

import pytest
import redis

from tests.clocks import now_ms
from zsched import Client, InvalidSchedule

DAY_MS = 86_400_000


def test_a_known_failure_is_listed_with_who_put_it_until_it_is_taken_back(
    client: Client, redis_client: redis.Redis
) -> None:
    client.ack(func="app.*", for_="2d")
    one = client.ack(func="app.*", note="the vendor mends it")
    listed = client.known_failures()
    is_back, is_again = client.remove_ack(one.name), client.remove_ack(one.name)

    assert [one] == listed
    assert (client.by, "app.*", None, "the vendor mends it") == (one.by, one.func, one.error, one.note)
    assert abs(one.until_ms - now_ms(redis_client) - 7 * DAY_MS) < 60_000
    assert (True, False, []) == (is_back, is_again, client.known_failures())


@pytest.mark.parametrize(("given", "field"), [({}, "func"), ({"func": "a", "for_": "91d"}, "for")])
def test_a_bad_known_failure_is_refused_and_not_written(client: Client, given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        client.ack(**given)

    assert (field, []) == (caught.value.field, client.known_failures())
