"""Tokens that operators make, prolong and revoke on the page of accounts. Without a browser."""

import html
import re
from collections.abc import Iterator

import httpx
import pytest

from tests.builders.web import Web
from zsched.core.clock import from_ms

pytestmark = pytest.mark.once
NEW = {"name": "shop", "role": "scheduler", "expires": "90d", "queues": "shop-*, mail", "funcs": "", "tags": ""}
_DAY_MS = 86_400_000


@pytest.fixture
def ann(web: Web) -> Iterator[httpx.Client]:
    """The browser of an operator who does not see arguments."""
    with web.browser("ann") as client:
        yield client


def token_in(page: str) -> str:
    [token] = re.findall(r"<code>(zs_[^<]*)</code>", page)
    return html.unescape(token)


def test_a_token_is_shown_once_and_has_the_rights_of_the_form(ann: httpx.Client, web: Web) -> None:
    made = ann.post("/accounts", data=NEW)
    later = ann.get("/accounts").text

    [account] = [one for one in web.accounts.read().by_digest.values() if one.name == "shop"]
    assert 200 == made.status_code
    assert "no-store" == made.headers["cache-control"]
    with web.client_of(token_in(made.text)) as shop:
        assert 200 == shop.get("/queues").status_code
    assert ("scheduler", ("shop-*", "mail"), (), "ann") == (
        account.role.value, account.limits.queues, account.limits.funcs, account.created_by,
    )  # fmt: skip
    assert account.expires_ms == account.created_ms + 90 * _DAY_MS
    assert ("zs_" in later, "queues: shop-*, mail" in later) == (False, True)


def test_a_revoked_token_ends_at_once(ann: httpx.Client, web: Web) -> None:
    with web.client_of(token_in(ann.post("/accounts", data=NEW | {"expires": ""}).text)) as shop:
        before = shop.get("/queues").status_code
        done = ann.post("/accounts:revoke", data={"name": "shop"})
        after = shop.get("/queues").status_code

    assert (200, 303, 401) == (before, done.status_code, after)
    assert "shop: revoked" in ann.get("/accounts").text
    ann.post("/accounts:revoke", data={"name": "shop"})
    assert "shop: not found" in ann.get("/accounts").text


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"name": "ann"}, "an account has this name"),
        ({"name": ""}, "not a name"),
        ({"role": "king"}, "give one of viewer, scheduler, operator"),
        ({"expires": "soon"}, "not a duration"),
    ],
)
def test_a_bad_form_makes_no_token(ann: httpx.Client, web: Web, changed: dict[str, str], text: str) -> None:
    answer = ann.post("/accounts", data=NEW | changed, headers={"Accept": "text/html"})

    assert (422, True) == (answer.status_code, text in answer.text)
    assert ["ann"] == [one.name for one in web.accounts.read().by_digest.values()]


def test_an_operator_who_sees_no_arguments_gives_no_right_to_see_them(ann: httpx.Client, web: Web) -> None:
    ann.post("/accounts", data=NEW | {"arguments": "yes"})
    with web.browser("joe", sees_arguments=True) as joe:
        joe.post("/accounts", data=NEW | {"name": "mail", "arguments": "yes"})

    rights = {one.name: one.sees_arguments for one in web.accounts.read().by_digest.values()}
    assert {"ann": False, "shop": False, "joe": True, "mail": True} == rights
    assert 'name="arguments"' not in ann.get("/accounts").text


def test_a_page_of_another_site_makes_no_token(ann: httpx.Client, web: Web) -> None:
    answer = ann.post("/accounts", data=NEW, headers={"Origin": "https://evil.example"})

    assert 403 == answer.status_code
    assert ["ann"] == [one.name for one in web.accounts.read().by_digest.values()]


def test_a_file_that_cannot_be_written_is_named(ann: httpx.Client, web: Web) -> None:
    lock = web.accounts.path.with_name(f"{web.accounts.path.name}.lock")
    lock.unlink(missing_ok=True)
    lock.mkdir()
    try:
        answer = ann.post("/accounts", data=NEW, headers={"Accept": "text/html"})
    finally:
        lock.rmdir()

    assert "nothing was changed" in answer.text
    assert ["ann"] == [one.name for one in web.accounts.read().by_digest.values()]


def test_an_expired_token_is_refused_and_a_prolonged_one_works_again(ann: httpx.Client, web: Web) -> None:
    with web.client_of(token_in(ann.post("/accounts", data=NEW).text)) as shop:
        seen = []
        for expires in ("2026-01-01T00:00Z", "1h", "2026-01-01T00:00+09:00", "", "2099-01-01T00:00Z"):
            done = ann.post("/accounts:expire", data={"name": "shop", "expires": expires})
            seen.append((done.status_code, shop.get("/queues").status_code))
            told = ann.get("/accounts").text
            assert (seen[-1][1] == 401) == (">expired<" in told)

    [account] = [one for one in web.accounts.read().by_digest.values() if one.name == "shop"]
    assert [(303, 401), (303, 200), (303, 401), (303, 200), (303, 200)] == seen
    assert "shop: expires at 2099-01-01 00:00:00+00:00" in told
    assert ("scheduler", from_ms(account.expires_ms or 0).year) == (account.role.value, 2099)


def test_a_bad_expiry_and_an_unknown_account_change_no_token(ann: httpx.Client, web: Web) -> None:
    bad = ann.post("/accounts:expire", data={"name": "ann", "expires": "soon"}, headers={"Accept": "text/html"})
    ann.post("/accounts:expire", data={"name": "nobody", "expires": "1h"})
    told = ann.get("/accounts").text
    ann.post("/accounts:expire", data={"name": "ann", "expires": ""})

    assert (422, True) == (bad.status_code, "not a duration" in bad.text)
    assert "nobody: not found" in told
    assert "ann: never expires" in ann.get("/accounts").text
