"""
The promise of docs/contributing/adding.md, tried: each addition is made in a copy of the package, in the files of its
page and in no other, and then used at several doors.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.adding import PAGES
from tests.documents import PROJECT

pytestmark = pytest.mark.redis
MADE = "zsched/tasks/task_call.pyi"  # by `make pages`
EACH_RULE = """
import json
from zsched.storage.keys import Keys
from zsched.testing import ManualScheduler

with ManualScheduler() as zsched:
    zsched.client.schedule("os.getpid", id="a", every=60)
    zsched.client.schedule("os.getpid", id="quiet", every=60)
    fired = [run.id.partition("-")[0] for run in zsched.advance(seconds=180)]
"""


@dataclass(frozen=True)
class Addition:
    """
    One addition: ``edits`` by file are pairs of a text and what stands in its place; ``use`` is a program that prints
    JSON.
    """

    page: str
    edits: dict[str, list[tuple[str, str]]]
    use: str
    prints: Any

    def make(self, root: Path) -> None:
        """Make it in the copy of the package in *root*."""
        for name, changes in self.edits.items():
            text = (root / name).read_text()
            for old, new in changes:
                assert 1 == text.count(old), f"{name}: {old}"
                text = text.replace(old, new)
            (root / name).write_text(text)


OPTION = Addition(
    "An option",
    {
        "zsched/core/options/table.py": [
            (
                "\n\nclass _ScheduleOnly(",
                """
    cost: Annotated[int | None, Option(
        "What a run costs, in cents.", forms.count_of("cents"), Stored.JOB, "zs_cost")]


class _ScheduleOnly(""",
            )
        ],
        "zsched/core/options/checked.py": [
            ("    owner: str | None = None\n", "    owner: str | None = None\n    cost: int | None = None\n")
        ],
        MADE: [],
    },
    """
import json, os
from click.testing import CliRunner
from docs.task_call import task_call
from zsched import Client, InvalidSchedule
from zsched.cli import program

client, told = Client.from_url(os.environ["ZSCHED_REDIS_URL"]), []
client.schedule("os.getpid", id="a", every=60, cost=7)
told.append(client.get("a").cost)
client.update("a", cost=8)
told.append(client.get("a").to_dict()["cost"])
try:
    client.schedule("os.getpid", after=60, cost=0)
except InvalidSchedule as error:
    told.append(error.field)
assert 0 == CliRunner().invoke(program, ["set", "a", "--cost", "9"]).exit_code
told.append(json.loads(CliRunner().invoke(program, ["show", "a", "--json"]).stdout)["cost"])
told.append("cost = 9" in CliRunner().invoke(program, ["export"]).stdout)
told.append(any("cost: int" in line for line in task_call()))
print(json.dumps(told))
""",
    [7, 8, "cost", 9, True, True],
)
OVERLAP = Addition(
    "An overlap policy",
    {
        "zsched/core/options/choices.py": [
            (
                "\n    def __new__(cls, word",
                '    REPLACE_QUEUED = "replace_queued", False, True\n\n    def __new__(cls, word',
            ),
            ('"queue", "cancel_previous"]', '"queue", "cancel_previous", "replace_queued"]'),
        ],
        "zsched/lua/lib/overlap.lua": [
            (
                "function POLICIES.allow.",
                "POLICIES.replace_queued = POLICIES.cancel_previous\n\nfunction POLICIES.allow.",
            )
        ],
        "zsched/lua/unblock.lua": [
            (
                "local function need_of(",
                """POLICIES.replace_queued = {mend = POLICIES.cancel_previous.mend}

-- A run that has begun goes on.
function POLICIES.replace_queued.need(need, runs)
  POLICIES.cancel_previous.need(need, runs)
  for n = #need.open, 1, -1 do
    if need.open[n].status == 'started' then
      table.remove(need.open, n)
    end
  end
end

local function need_of(""",
            )
        ],
    },
    """
import json
from zsched.testing import ManualScheduler

with ManualScheduler() as zsched:
    zsched.client.schedule("os.getpid", id="a", every=60, overlap="replace_queued")
    zsched.advance(seconds=180)
    zsched.tick()
    print(json.dumps([str(run.status) for run in zsched.client.runs("a")]))
""",
    ["queued", "cancelled", "cancelled"],
)
OUTCOME = Addition(
    "An outcome",
    {
        "zsched/core/occurrences/outcomes.py": [
            (
                "    # of a recovery\n",
                """    QUIET = "quiet", What.SKIPPED, "quiet", "a quiet night", "info", "run_skipped"

    # of a recovery
""",
            )
        ],
        "zsched/lua/advance.lua": [
            ("skipped overlap expired passed", "skipped quiet overlap expired passed"),
            (
                "  elseif not plan.fires then\n",
                "  elseif id == 'quiet' then\n    word = 'quiet'\n  elseif not plan.fires then\n",
            ),
        ],
    },
    EACH_RULE
    + """
    [skipped, *_] = [change for change in zsched.client.why("quiet").changes if change.what.value == "skipped"]
    listed = zsched.client.history(id="quiet", status="skipped")
    print(json.dumps([fired, skipped.why, len(list(listed))]))
""",
    [["a", "a", "a"], "quiet", 3],
)
STATE = Addition(
    "State of a schedule",
    {
        "zsched/lua/advance.lua": [
            (
                "  count_skip(id, word, plan, nominal_ms, state)\n",
                "  count_skip(id, word, plan, nominal_ms, state)\n"
                "  local pushes = count_in(state, 'pushes') + 1\n"
                "  change_state(id, with_count(state, 'pushes', pushes))\n",
            )
        ],
        "zsched/storage/troubled.py": [],
    },
    EACH_RULE
    + """
    print(json.dumps([zsched.redis.hget(Keys("default").schedule("a"), "progress").decode().split()[2], len(fired)]))
""",
    ["pushes=3", 6],
)
CHECK = Addition(
    "A check",
    {
        "zsched/health/checks_recent.py": [
            (
                '@health_check("rebuilt", RecentActivity, "loss")\n',
                '@health_check("calm", RecentActivity, "loss")\n'
                "def check_calm(recent: RecentActivity) -> Iterator[Finding]:\n"
                '    """Report that all is calm."""\n'
                '    yield warning("it is too calm", "zsched add something")\n\n\n'
                '@health_check("rebuilt", RecentActivity, "loss")\n',
            )
        ]
    },
    """
import json
from click.testing import CliRunner
from zsched.cli import program

calls = [[name, *more] for name in ("status", "doctor") for more in ([], ["--json"])]
print(json.dumps(["it is too calm" in CliRunner().invoke(program, call).stdout for call in calls]))
""",
    [True] * 4,
)
ADDITIONS = [OPTION, OVERLAP, OUTCOME, STATE, CHECK]


@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda addition: addition.page)
def test_an_addition_needs_only_the_files_of_its_page(addition: Addition, redis_url: str, tmp_path: Path) -> None:
    [page] = [page for page in PAGES if page.title == addition.page]
    for folder in ("zsched", "docs", "config"):
        shutil.copytree(PROJECT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))

    addition.make(tmp_path)

    assert page.in_package == set(addition.edits)
    environment = os.environ | {"ZSCHED_REDIS_URL": redis_url, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", addition.use], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert not ran.returncode, ran.stderr
    assert addition.prints == json.loads(ran.stdout)
