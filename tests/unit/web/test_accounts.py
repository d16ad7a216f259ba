"""The text of a file of accounts, and the cookies of sessions."""

from dataclasses import replace

import pytest

from zsched.core.options.allowed import Limits
from zsched.errors import ConfigError
from zsched.web.accounts import Account, AccountRole, Accounts, digest_of

D1, D2 = digest_of("zs_one"), digest_of("zs_two")
ANN = Account("ann", AccountRole.OPERATOR)
SHOP = Account(
    'shop.eu "ünïcode"\\', AccountRole.SCHEDULER, Limits(("app.*",), ("mail", "a,b"), ("x",)), True,
    1_700_000_000_123, "joe@host (sudo)", 1_800_000_000_456,
)  # fmt: skip
NOW_MS = 1_750_000_000_000


def problem_of(text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        Accounts.parse(text.encode(), "/accounts.toml")
    return str(refused.value)


def test_a_written_file_is_read_as_it_was() -> None:
    accounts = Accounts({D1: ANN, D2: SHOP})

    assert accounts == Accounts.parse(accounts.to_text().encode(), "/accounts.toml")


def test_a_file_by_hand_needs_a_digest_and_a_role() -> None:
    text = f'[accounts.ann]\nsha256 = "{D1}"\nrole = "viewer"\nexpires_at = 2027-02-27T13:00:00+01:00\n'

    found = Accounts.parse(text.encode(), "/accounts.toml")

    assert {D1: replace(ANN, role=AccountRole.VIEWER, expires_ms=1_803_729_600_000)} == dict(found.by_digest)


@pytest.mark.parametrize(("text", "problem"), [
    ("a = 1\nb = ,", "/accounts.toml: Invalid value (at line 2, column 5)"),
    ("token = 'x'", "/accounts.toml: token is not a key of an accounts file; there are: cookie_key, accounts"),
    ("cookie_key = 'secret'", "/accounts.toml: cookie_key: not 64 hexadecimal digits; remove its line"),
    ("accounts = 1", "/accounts.toml: accounts is a heading: write [accounts.<name>]"),
    ("[accounts]\nann = 'x'", "/accounts.toml: [accounts] ann='x': is outside of a table; write [accounts.<name>]"),
    ("[accounts.ann]\nROLE", "[accounts.ann] sha256: not 64 hexadecimal digits; zsched tokens add makes a token"),
    ("[accounts.ann]\nROLE\nsha256 = 'zs_secret'", "[accounts.ann] sha256: not 64 hexadecimal digits"),
    ("[accounts.ann]\nSHA", "[accounts.ann] role: it is missing; write one of: viewer, scheduler, operator"),
    ("[accounts.ann]\nSHA\nrole = 'boss'", "[accounts.ann] role='boss': write one of: viewer, scheduler, operator"),
    ("[accounts.ann]\nSHA\nROLE\nqueue = 'a'", "[accounts.ann] queue is not a setting; did you mean queues?"),
    ("[accounts.ann]\nSHA\nROLE\nqueues = [1]", "[accounts.ann] queues=[1]: write a list of words"),
    ("[accounts.ann]\nSHA\nROLE\narguments = 2", "[accounts.ann] arguments=2: write true or false"),
    ("[accounts.ann]\nSHA\nROLE\nexpires_at = 2027-02-27T12:00:00", "expires_at=2027-02-27T12:00:00: write a time"),
    ("[accounts.\"\"]\nSHA\nROLE", "/accounts.toml: [accounts.'']: not a usable name; write 1 to 200 printable"),
    ("[accounts.ann]\nSHA\nROLE\n[accounts.bob]\nSHA\nROLE", "[accounts.bob] sha256: ann has the same token; remove"),
])  # fmt: skip
def test_a_wrong_line_is_refused_with_its_place_and_the_remedy_and_without_a_secret(text: str, problem: str) -> None:
    said = problem_of(text.replace("SHA", f'sha256 = "{D1}"').replace("ROLE", 'role = "viewer"'))

    assert problem in said
    assert "secret" not in said


def test_a_file_that_is_not_in_utf_8_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"/accounts\.toml: 'utf-8' codec"):
        Accounts.parse(b"# \xff", "/accounts.toml")


def test_an_account_is_found_by_its_token_until_it_expires() -> None:
    accounts = Accounts({D1: ANN, D2: replace(ANN, name="bob", expires_ms=NOW_MS)})

    assert [ANN, None, None] == [accounts.find(digest, NOW_MS) for digest in (D1, D2, None)]
    assert "bob" == getattr(accounts.find(D2, NOW_MS - 1), "name", None)


def test_a_cookie_names_its_token_until_its_end_for_who_has_the_key() -> None:
    accounts = Accounts({D1: ANN})
    cookie = accounts.cookie(D1, NOW_MS)

    assert [D1, None] == [accounts.digest_in(cookie, at_ms) for at_ms in (NOW_MS - 1, NOW_MS)]
    assert D1 == Accounts({}, accounts.cookie_key).digest_in(cookie, 0)
    assert None is Accounts({D1: ANN}).digest_in(cookie, 0)


@pytest.mark.parametrize("change", [
    lambda cookie: "", lambda cookie: cookie[:-1], lambda cookie: cookie + "0", lambda cookie: "." + cookie,
    lambda cookie: cookie.replace(D1, D2), lambda cookie: cookie.replace(str(NOW_MS), str(NOW_MS * 2)),
    lambda cookie: cookie.rpartition(".")[0] + ".", lambda cookie: cookie.rpartition(".")[0] + ".é",
])  # fmt: skip
def test_a_changed_cookie_names_nobody(change: object) -> None:
    accounts = Accounts({D1: ANN, D2: ANN})

    assert callable(change)
    assert None is accounts.digest_in(change(accounts.cookie(D1, NOW_MS)), 0)
