"""Commands, as a wire packs them."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest
import redis

from zsched.errors import RedisRefused
from zsched.storage.connection import Wire


def test_a_wire_packs_numbers_as_text_because_hiredis_crashes_on_ctrl_c_while_it_packs_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed: list[tuple[Any, ...]] = []
    monkeypatch.setattr(hiredis, "pack_command", packed.append)

    Wire(None, "x").pack(("ZADD", "key", 1700000000000.5, -3, b"member"))

    assert [("ZADD", "key", "1700000000000.5", "-3", b"member")] == packed


def test_a_part_that_is_no_text_and_no_number_is_refused() -> None:
    with pytest.raises(redis.DataError, match="must be str, int, float or bytes"):
        Wire(None, "x").pack(("GET", None))


class Stranger:
    """A connection to a server that demands a password."""

    is_open = True

    def send_packed_command(self, command: list[bytes], check_health: bool) -> None:
        raise redis.AuthenticationError("NOAUTH Authentication required.")

    def disconnect(self) -> None:
        self.is_open = False


def test_a_wire_is_closed_when_the_server_demands_a_password() -> None:
    connection = Stranger()
    wire = Wire(connection, "x")

    with pytest.raises(RedisRefused, match="needs user and password"):
        wire.send("PING")

    assert (wire.is_broken, connection.is_open) == (True, False)
