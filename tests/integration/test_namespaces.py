"""A namespace without a key says so, at every door; and each door takes or refuses the same names."""

from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.web import Web
from tests.integration.users import GuardedRedis
from zsched import Client, InvalidSchedule
from zsched.cli.program import DONE, NOT_FOUND, UNHEALTHY, USAGE
from zsched.storage import rivals

META = "zsched:{default}:meta"  # fixtures write a part of it
HINT = "zsched: namespace 20 is empty here; this Redis has: billing, default"


@pytest.fixture
def filled(zsched: Zsched, redis_url: str) -> Zsched:
    """A Redis with the namespaces default and billing."""
    for namespace in ("default", "billing"):
        Client.from_url(redis_url, namespace).schedule("app.task", id="digest", every=3600)
    return zsched


@pytest.mark.parametrize(
    ("words", "code", "meant"),
    [
        ("ls", DONE, "--limit"), ("history", DONE, "--limit"), ("log", DONE, "--limit"), ("export", DONE, ""),
        ("show digest", NOT_FOUND, ""), ("why digest", NOT_FOUND, ""), ("next digest", NOT_FOUND, "--number"),
        ("status", UNHEALTHY, ""), ("doctor", UNHEALTHY, ""), ("set digest --tag a", NOT_FOUND, ""),
        ("pause digest", NOT_FOUND, "--limit"), ("cancel digest", NOT_FOUND, "--limit"), ("run digest", NOT_FOUND, ""),
    ],
)  # fmt: skip
def test_a_command_says_that_its_namespace_is_empty_and_which_ones_are_not(
    filled: Zsched, words: str, code: int, meant: str
) -> None:
    told = filled(*words.split(), "-n", "20")

    hint = f"{HINT}. Did you mean {meant} 20?" if meant else HINT
    assert (code, 1) == (told.exit_code, told.stderr.splitlines().count(hint)), told.stderr


@pytest.mark.parametrize("words", ["ls", "show digest", "why digest", "next digest", "history", "log", "show gone"])
def test_a_command_says_nothing_of_namespaces_if_its_own_has_a_key(filled: Zsched, words: str) -> None:
    assert "namespace" not in filled(*words.split(), "-n", "billing").stderr.replace("in namespace 'billing'", "")


def test_the_first_schedule_of_a_namespace_is_added_without_a_word(filled: Zsched) -> None:
    assert "empty" not in filled("add", "a", "app.task", "--every", "1h", "-n", "20").stderr


@pytest.mark.parametrize(
    ("words", "said"), [("-n x", "namespace x is empty here; this Redis has no other"), ("-n x --json", "")]
)
def test_a_redis_without_any_namespace_says_so_and_json_stays_alone(zsched: Zsched, words: str, said: str) -> None:
    assert said == zsched("ls", *words.split()).stderr.strip().removeprefix("zsched: ")


def test_only_an_empty_namespace_costs_a_scan_and_a_large_redis_is_not_scanned_to_its_end(
    filled: Zsched, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rivals, "_STEPS", 2)
    redis_client.mset({f"key-{number}": 1 for number in range(5000)})

    def scans() -> int:
        return int(redis_client.info("commandstats").get("cmdstat_scan", {"calls": 0})["calls"])

    before = scans()
    assert "" == filled("ls").stderr
    assert before == scans()
    assert "namespace 20 is empty here" in filled("ls", "-n", "20").stderr
    assert before + 2 == scans()


@pytest.mark.redis
def test_a_user_without_the_right_to_scan_learns_no_other_namespace(guarded: GuardedRedis) -> None:
    Client.from_url(guarded.url("operator"), "billing").schedule("app.task", id="a", every=3600)

    told = {user: Zsched(guarded.url(user))("ls").stderr.strip() for user in ("operator", "zsched-client")}

    empty = "zsched: namespace default is empty here"
    assert {"operator": f"{empty}; this Redis has: billing", "zsched-client": empty} == told


def test_the_http_list_says_that_its_namespace_is_empty(web: Web, client: Client, redis_client: redis.Redis) -> None:
    redis_client.delete(META)
    with web.client() as http:
        answers = [http.get("/schedules").json()]
        client.schedule("app.task", id="a", every=3600, tags=["t"])
        answers += [http.get("/schedules", params=query).json() for query in ({}, {"tag": "other"})]

    assert [True, False, False] == [one["is_empty"] for one in answers]


def test_the_console_says_that_its_namespace_is_empty(web: Web, client: Client, redis_client: redis.Redis) -> None:
    said = "This namespace is empty in this Redis: nothing was ever scheduled in it."
    redis_client.delete(META)
    with web.browser() as browser:
        assert said in browser.get("/schedules").text
        client.schedule("app.task", id="a", every=3600)
        page = browser.get("/schedules", params={"tag": "other"}).text

    assert (False, True) == (said in page, "No schedule matches." in page)


# -- names ------------------------------------------------------------------------------------------

VALID = ["default", "a", "20", "_", "0x", "a" * 32]
INVALID = ["A", "a-b", "a b", "a:b", "{a}", "*", "ä", "a" * 33, "a\n", " a", "a ", "../a", "-n", "ａ"]


@pytest.mark.parametrize("name", VALID)
def test_every_door_takes_a_valid_name_of_a_namespace(redis_url: str, tmp_path: Path, name: str) -> None:
    file = tmp_path / "zsched.toml"
    file.write_text(f'namespace = "{name}"\n')

    assert "created" == Client.from_url(redis_url, name).schedule("app.task", id="a", every=3600).outcome
    for arguments, env in doors(name, file):
        assert "a" in Zsched(redis_url)("ls", *arguments, **env).stdout


@pytest.mark.parametrize("name", INVALID)
def test_every_door_refuses_an_invalid_name_with_the_place_the_value_and_the_remedy(
    redis_url: str, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "zsched.toml"
    file.write_text(f"namespace = {name!r}\n", encoding="utf-8")

    with pytest.raises(InvalidSchedule, match=r"^namespace=.*: not a namespace; give 1 to 32 of a-z, 0-9 and _$"):
        Client.from_url(redis_url, name)
    for arguments, env in doors(name, file):
        refused = Zsched(redis_url)("ls", *arguments, **env)
        assert USAGE == refused.exit_code
        assert "amespace" in refused.stderr.lower().replace("NAMESPACE", "namespace")
        assert refused.stderr.endswith("use 1 to 32 of a-z, 0-9 and _\n"), refused.stderr


def doors(name: str, file: Path) -> list[tuple[list[str], dict[str, Any]]]:
    """Return the ways by which a command gets the name: arguments and environment."""
    return [([f"--namespace={name}"], {}), ([], {"ZSCHED_NAMESPACE": name}), (["-c", str(file)], {})]
