"""Parts of commands, as a wire gives them to redis-py."""

from __future__ import annotations

from typing import Any

from zsched.storage.connection import Wire


class Recording:
    """A connection that keeps what it is to send."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    def send_command(self, *command: Any, check_health: bool) -> None:
        self.sent.append(command)


def test_a_wire_sends_numbers_as_text_because_hiredis_crashes_on_ctrl_c_while_it_packs_a_number() -> None:
    connection = Recording()

    Wire(connection, "x").send("ZADD", "key", 1700000000000.5, -3, b"member")

    assert [("ZADD", "key", "1700000000000.5", "-3", b"member")] == connection.sent
