"""Sinks of settings: what is refused with its place and remedy, and what is never shown."""

from pathlib import Path
from typing import Any

import pytest

from tests.builders.receivers import mail_server
from zsched.config.settings import load_settings
from zsched.core.facets import Facets
from zsched.errors import ConfigError
from zsched.notify.message import Message
from zsched.notify.sinks import SinkFailed, sinks_of, slug_of


def load(folder: Path, text: str) -> Any:
    file = folder / "zsched.toml"
    file.write_text(text)
    return sinks_of(load_settings(file, env={}).notify, "default")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('url = "https://h/x"', "[notify.ops]: its kind is missing; write kind = one of: webhook, slack"),
        ('kind = "sms"', "[notify.ops] kind='sms': write one of: webhook, slack, email, sentry, ping"),
        ('kind = "slack"', "it needs one of url and url_file"),
        ('kind = "slack"\nurl = "https://h/x"\nurl_file = "/x"', "it needs one of url and url_file"),
        ('kind = "slack"\nurl = "h/x"', "url='h/x': write a URL: https://host/path"),
        ('kind = "slack"\nurl = "smtp://h"', "[notify.ops] url: not a URL for slack; write https://host/… or http://"),
        ('kind = "slack"\nurl = "https://h:99999/"', "[notify.ops] url: not a URL for slack"),
        ('kind = "email"\nurl = "smtp://h"', "it has nobody to write to; write to ="),
        ('kind = "ping"\nurl = "https://h"\non = ["lost"]', "on is not a setting of the kind ping; remove it"),
        ('kind = "slack"\nurl = "https://h"\non = ["failing"]', "on=['failing']: write one of: failed, lost"),
        ('kind = "slack"\nurl = "https://h"\nevery_s = 0', "every_s=0: write a number from 0.1 to 86400"),
        ('kind = "slack"\nurl_file = "/nowhere/u"', "url_file='/nowhere/u': No such file or directory; write the url"),
        ('kind = "sentry"\nurl = "https://h/1"', "[notify.ops] url: not a DSN of Sentry; copy it"),
        ('kind = "webhook"\nurl = "https://h"\nsecret_file = "{}/secret"', "secret_file: no Base64 after whsec_"),
    ],
)
def test_a_mistake_in_a_sink_is_named_with_its_place_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "secret").write_text("whsec_no base64")

    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"[notify.ops]\n{text.format(tmp_path)}\n")

    assert message in str(refused.value)


def test_the_address_of_a_sink_has_no_secret(tmp_path: Path) -> None:
    [sink] = load(
        tmp_path, '[notify.ops]\nkind = "slack"\nurl = "https://user:pass@hooks.example.com:8443/T0/s3cret?x=1"\n'
    )

    assert "https://hooks.example.com:8443" == sink.address


def test_a_password_is_not_sent_to_a_mail_server_without_tls(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("password")
    with mail_server("127.0.0.2") as (url, mails):
        table = f'kind = "email"\nurl = "{url}"\nto = ["a@b"]\nsecret_file = "{tmp_path}/secret"'
        [sink] = load(tmp_path, f"[notify.ops]\n{table}\n")

        with pytest.raises(SinkFailed, match="offers no STARTTLS"):
            sink.send(Message.of_test("default", "ops", 0))

    assert not mails


@pytest.mark.parametrize(
    ("filters", "is_wanted"),
    [
        ({}, True),
        ({"funcs": ("app.*",)}, True),
        ({"funcs": ("other.*", "app.f")}, True),
        ({"funcs": ("other.*",)}, False),
        ({"tags": ("b*",), "queues": ("mail",)}, True),
        ({"tags": ("b*",), "queues": ("sms",)}, False),
        ({"owners": ("shop",)}, False),
    ],
)
def test_a_filter_of_a_sink_lets_only_its_schedules_through(filters: dict[str, Any], is_wanted: bool) -> None:
    [sink] = sinks_of({"ops": {"kind": "slack", "url": "https://h/x", **filters}}, "default")

    assert is_wanted == sink.wants(Facets("app.f", "mail", "", ("a", "billing")))


def test_two_schedules_have_two_monitors_with_names_that_sentry_takes() -> None:
    ids = ["digest", "Digest", "x" * 80, "x" * 81]
    slugs = [slug_of("default", id) for id in ids]

    assert "default-digest" == slugs[0]
    assert len(ids) == len(set(slugs))
    assert all(len(slug) <= 50 and slug == slug.lower() for slug in slugs)
