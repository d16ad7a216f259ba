"""``zsched notify``: sinks of the settings and of the leader, and a test message."""

from pathlib import Path

import pytest

from tests.builders.command_line import Zsched
from tests.builders.receivers import Receiver
from zsched.cli.program import DONE, FAILED, NOT_FOUND, USAGE

pytestmark = pytest.mark.once


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "zsched.toml"


def test_a_test_message_is_sent_from_here_and_a_refusal_is_reported(
    zsched: Zsched, config: Path, receiver: Receiver
) -> None:
    config.write_text(f'[notify.ops]\nkind = "webhook"\nurl = "{receiver.url}/secret"\n')

    sent = zsched("notify", "test", "ops", "-c", str(config))
    unknown = zsched("notify", "test", "other", "-c", str(config))
    receiver.answer = lambda request: (404, b"no such hook")
    refused = zsched("notify", "test", "ops", "-c", str(config))

    assert (DONE, "ops: sent\n") == (sent.exit_code, sent.stdout)
    assert "A test of [notify.ops] of zsched default" in receiver.messages[0]["text"]
    assert NOT_FOUND == unknown.exit_code
    assert (FAILED, f"zsched: {receiver.url} answered 404: no such hook\n") == (refused.exit_code, refused.stderr)


def test_the_sinks_of_the_settings_are_listed_without_their_secrets(zsched: Zsched, config: Path) -> None:
    nothing = zsched("notify", "list")
    config.write_text('[notify.ops]\nkind = "slack"\nurl = "https://hooks.example.com/T0/s3cret"\n')

    listed = zsched("notify", "list", "-c", str(config))
    [sink] = zsched.json("notify", "list", "-c", str(config))

    assert "neither the leader nor these settings have a [notify.<name>]" in nothing.stdout
    assert "https://hooks.example.com " in listed.stdout
    assert "s3cret" not in listed.stdout
    assert ("slack", None, None) == (sink["kind"], sink["last"], sink["error"])


def test_a_mistake_in_a_sink_is_a_usage_error(zsched: Zsched, config: Path) -> None:
    config.write_text('[notify.ops]\nkind = "slack"\nurl_file = "/nowhere"\n')

    assert "[notify.ops] url_file='/nowhere'" in zsched.refusal("notify", "list", "-c", str(config), code=USAGE)
