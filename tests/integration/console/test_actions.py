"""Actions of the console without a browser: what they answer, and what the next page says."""

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from tests.builders.web import Web
from zsched import Client
from zsched.core.clock import from_ms
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once


@pytest.fixture
def ann(web: Web) -> Iterator[httpx.Client]:
    """The browser of an operator."""
    with web.browser("ann") as client:
        yield client


def test_a_page_says_once_what_was_done(ann: httpx.Client, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", every=3600)

    answer = ann.post("/schedules/digest:pause")
    part, first, second = (
        ann.get("/schedules/digest", headers=headers) for headers in ({"HX-Request": "true"}, {}, {})
    )

    assert (303, "/schedules/digest") == (answer.status_code, answer.headers["location"])
    made_up = ann.get("/schedules?said=All+schedules+were+deleted")

    assert 'class="said"' not in made_up.text
    said = '<p class="said" role="status">paused</p>'
    assert (False, True, False) == tuple(said in page.text for page in (part, first, second))


def test_the_next_occurrence_is_skipped_and_taken_back_on_the_page(ann: httpx.Client, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", cron="0 9 * * *")
    [first] = client.preview("digest", n=1)

    ann.post("/schedules/digest:skip", data={"note": "holiday"})
    page = ann.get("/schedules/digest").text
    assert (first,) == client.get("digest").skipped
    assert f'name="at" value="{first.isoformat()}"' in page
    assert "will skip" in page

    ann.post("/schedules/digest:unskip", data={"at": first.isoformat()})
    assert () == client.get("digest").skipped


def test_a_pause_with_an_end_is_local_in_the_zone_of_the_page(ann: httpx.Client, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", cron="0 9 * * *", tz="Asia/Seoul")

    ann.post("/schedules/digest:pause", data={"note": "", "until": "2099-12-24T18:00"})

    assert datetime(2099, 12, 24, 9, tzinfo=UTC) == from_ms(client.get("digest").resumes_ms or 0)
    assert "until 2099-12-24 18:00:00+09:00" in ann.get("/schedules/digest").text
    assert "paused until 2099-12-24" in re.sub("<[^>]*>", "", ann.get("/schedules?state=paused").text)


def test_the_questions_of_actions_say_what_they_do_and_name_a_way_out(ann: httpx.Client, client: Client) -> None:
    client.schedule("app.tasks.remind", id="party", at=datetime(2099, 12, 24, 18, tzinfo=UTC))
    client.schedule("app.tasks.remind", id="digest", every=3600)

    one_shot, recurring = (ann.get(f"/schedules/{id}").text for id in ("party", "digest"))

    used_up = "This uses up its time: it does not run again."
    assert (True, False) == (used_up in one_shot, used_up in recurring)
    assert '<time datetime="2099-12-24T18:00:00' in one_shot.partition(used_up)[0]
    assert ">Cancel schedule &#39;digest&#39;</button>" in recurring
    assert ">Keep it</a>" in recurring


def test_errors_and_help_of_pages_have_labels_and_no_words_of_commands(ann: httpx.Client, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", every=3600)

    form = ann.get("/schedules/digest/edit").text
    missing = ann.get("/schedules/none/edit", headers={"Accept": "text/html"}).text
    query = {"start": "2026-01-02T00:00", "end": "2026-01-01T00:00"}
    swapped = ann.get("/schedules/digest/backfill", params=query, headers={"Accept": "text/html"}).text

    assert '<label for="field-tz">Time zone</label>' in form
    assert "The most runs that wait with Overlap queue; default 100." in form
    assert [] == re.findall(r"--[a-z]|may be repeated", form)
    assert "no schedule &#39;none&#39; in namespace &#39;default&#39;" in missing
    assert "zsched ls" not in missing
    assert "To=2026-01-01T00:00:00+00:00: not later than the beginning" in swapped


@pytest.mark.parametrize(
    ("path", "name", "text"),
    [
        ("/runs", "since", "nonsense"),
        ("/runs", "status", "broken"),
        ("/schedules", "due_after", "nonsense"),
        ("/schedules", "state", "broken"),
        ("/schedules/digest/backfill", "start", "nonsense"),
    ],
)
def test_a_bad_value_stays_in_its_form_with_the_error_at_its_field(
    ann: httpx.Client, client: Client, path: str, name: str, text: str
) -> None:
    client.schedule("app.tasks.remind", id="digest", every=3600)

    page = ann.get(path, params={name: text, "queue": "mail"}, headers={"Accept": "text/html"})

    assert 422 == page.status_code
    assert f'<a href="#field-{name}">' in page.text
    assert re.search(rf'id="field-{name}" aria-invalid="true" aria-describedby="error-{name}"', page.text)
    assert re.search(rf'id="error-{name}">[^<]*{text}', page.text)
    assert f'value="{text}"' in page.text or f"<option selected>{text}</option>" in page.text
    assert "backfill" in path or 'value="mail"' in page.text


def test_a_refused_backfill_keeps_its_form_and_shows_all_errors(ann: httpx.Client, client: Client) -> None:
    client.schedule("app.tasks.remind", id="party", at=datetime(2099, 12, 24, 18, tzinfo=UTC))
    client.schedule("app.tasks.remind", id="digest", every=3600)
    given, accept = {"start": "2026-01-01T00:00:00", "end": "2026-01-02T00:00:00"}, {"Accept": "text/html"}

    one_shot = ann.get("/schedules/party/backfill", params=given, headers=accept)
    coming = ann.post("/schedules/digest:backfill", data=given | {"end": "2099-01-01T00:00:00"}, headers=accept)

    assert (422, 422) == (one_shot.status_code, coming.status_code)
    assert "it is a one-shot and has no past occurrences; run it now, or retry its run</p>" in one_shot.text
    assert 'value="2026-01-01T00:00:00"' in coming.text
    assert re.search(r'id="error-end">To=.*give a time up to now', coming.text)


def form_of(page: httpx.Response) -> dict[str, str]:
    """Return the texts with which a browser would send the form of an edit, untouched."""
    form = page.text.partition('class="edit"')[2].partition("</form>")[0]
    texts = dict(re.findall(r'<input[^>]*?name="([a-z_]+)"[^>]*?value="([^"]*)"', form))
    unchecked = re.findall(r'type="checkbox"[^>]*?name="([a-z_]+)"(?![^>]*checked)', form)
    choices = re.findall(r'<select[^>]*?name="([a-z_]+)"[^>]*>(.*?)</select>', form, re.DOTALL)
    chosen = {name: (re.findall(r"<option selected>([^<]*)<", each) or [""])[0] for name, each in choices}
    return {name: html.unescape(text) for name, text in (texts | chosen).items() if name not in unchecked}


def test_a_field_that_two_people_changed_is_shown_with_both_values(ann: httpx.Client, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", cron="0 9 * * *", queue="mail", tags=["shop"])
    mine = form_of(ann.get("/schedules/digest/edit")) | {"queue": "slow", "description": "for all"}
    client.update("digest", queue="urgent", tags=["sale"])

    conflict = ann.post("/schedules/digest/edit", data=mine)
    again = form_of(conflict)

    assert 409 == conflict.status_code
    assert ("slow", "for all", "sale") == (again["queue"], again["description"], again["tags"])
    assert re.findall(r'name="take\.(\w+)" value="theirs" required> Now: ([^<]+)<', conflict.text) == [
        ("queue", "urgent")
    ]
    assert ("urgent", None) == (client.get("digest").queue, client.get("digest").note)

    done = ann.post("/schedules/digest/edit", data=again | {"take.queue": "theirs"})

    found = client.get("digest")
    assert (303, "urgent", "for all", ("sale",)) == (done.status_code, found.queue, found.description, found.tags)

    mine = form_of(ann.get("/schedules/digest/edit")) | {"queue": "slow"}
    client.update("digest", queue="later")
    again = form_of(ann.post("/schedules/digest/edit", data=mine))
    ann.post("/schedules/digest/edit", data=again | {"take.queue": "mine"})
    assert "slow" == client.get("digest").queue


def test_exclusions_with_commas_are_edited_as_a_list(ann: httpx.Client, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", cron="0 9 * * *", exclude=["Mon,Fri 12:00-13:00", "12-25"])
    form = form_of(ann.get("/schedules/digest/edit"))
    assert "Mon,Fri 12:00-13:00; 12-25" == form["exclude"]

    ann.post("/schedules/digest/edit", data=form | {"exclude": f"{form['exclude']}; Sat,Sun"})

    spec = client.get("digest").trigger
    assert spec is not None
    assert ("Mon,Fri 12:00-13:00", "12-25", "Sat,Sun") == spec.exclude


def test_an_untouched_edit_changes_nothing_and_an_error_stands_at_its_field(ann: httpx.Client, client: Client) -> None:
    client.schedule("app.tasks.remind", id="party", at=datetime(2099, 12, 24, 18, tzinfo=UTC), at_front=True, retry=2)
    version = client.get("party").version

    ann.post("/schedules/party/edit", data=form_of(ann.get("/schedules/party/edit")))

    assert version == client.get("party").version

    client.schedule("app.tasks.remind", id="digest", cron="0 9 * * *")
    given = form_of(ann.get("/schedules/digest/edit")) | {"tz": "Mars/Olympus"}

    page = ann.post("/schedules/digest/edit", data=given)

    assert 422 == page.status_code
    assert '<a href="#field-tz">Time zone: this machine' in page.text
    assert re.search(r'id="field-tz" name="tz" aria-describedby="error-tz help-tz" aria-invalid="true"', page.text)
    assert "Mars/Olympus" == form_of(page)["tz"]


def test_pages_of_a_server_without_changes_give_the_reason_to_an_operator(
    guard: Guard, redis_url: str, tmp_path: Path, client: Client
) -> None:
    client.schedule("app.tasks.remind", id="digest", every=3600, queue="mail")
    web = Web(guard, redis_url, tmp_path, ZSCHED_RQ_ALLOW_CALLABLES="*")

    with web.browser("ann") as ann, web.browser("eve", "viewer") as eve:
        pages = [ann.get(path).text for path in ("/", "/schedules?queue=mail", "/schedules/digest")]
        viewers = eve.get("/schedules/digest").text

    reason = "Changes are refused while [rq] allow_callables is [&#34;*&#34;]"
    assert [True] * 3 == [reason in page for page in pages]
    assert reason not in viewers
    disabled = [re.findall(r"<button [^>]*disabled[^>]*>([^<]*)<", page) for page in pages]
    assert [[], ["Pause …", "Resume …", "Cancel …"]] == disabled[:2]
    assert ["Run now …", "Pause …", "Skip next …", "Edit", "Backfill", "Cancel …"] == disabled[2]
