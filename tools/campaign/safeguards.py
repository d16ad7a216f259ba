"""
Proof that the audit can fail: daemons run a copy of zsched, from which one safeguard may be removed (``--without``).

========  ==========================================================================================
fence     both comparisons of lib/fence.lua, of the lease and of the server. Each is the other's second
          line: after FLUSHALL under an open connection the lease is gone *and* the server unknown. With
          one of them a leader notices, acquires, and so sets doubt. With neither it continues in a Redis
          that knows of no doubt, and runs restored by an archive are pushed again unmarked: doubled.
          A standby would take the free lease and so set doubt: the fault that shows it has none.
          (The lease alone never lets a run be pushed twice: one-shots leave their lane in one script, and
          advance compares the progress. It keeps a stale leader from applying its plans.)
fence-    the same in fire.lua alone: a fire call of a killed leader arrives after FLUSHALL and a restore by
of-fire   hand, before a daemon led again and so set doubt: pushed again unmarked. Where a daemon leads, ZREM,
          doubt and hold are enough.
hold      lib/hold.lua in fire and advance: an older RDB is restored in which a schedule waits that was
          cancelled since. It is due, and fires before an archive has removed it.
xadd      the XADD in lib/meta.lua: changes by daemons are in no log. Runs are received that no log accounts
          for, and Redis counts further than its log goes.
advance   the comparison of the progress in advance.lua: a plan is applied although its rule was
          changed, paused or cancelled while the plan was on its way. The rule fires at wrong times, has
          two places, or comes back.
========  ==========================================================================================

Only daemons run the copy; clients run the code of this folder.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

import zsched
from zsched.storage.scripts import source

# hold.lua includes fence.lua, which includes meta.lua: a script without one of them includes what that one does.
HOLD = "-- include lib/hold.lua"
WITHOUT_HOLD = "-- include lib/fence.lua"
WITHOUT_FENCE = source("lib/hold.lua").replace(WITHOUT_HOLD, "-- include lib/meta.lua")


@dataclass(frozen=True, slots=True)
class Safeguard:
    """``lines`` of scripts, each with its replacement; ``faults`` that show that the lines are missing."""

    files: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]
    faults: tuple[str, ...]


SAFEGUARDS = {
    "fence": Safeguard(
        ("lib/fence.lua",),
        (("redis.call('GET', lease_key) ~= token", "false"), ("server ~= expected_server", "false")),
        ("flushall-alone",),
    ),
    "fence-of-fire": Safeguard(
        ("fire.lua",),
        ((HOLD, WITHOUT_FENCE),),
        ("fire-on-its-way",),
    ),
    "hold": Safeguard(
        ("fire.lua", "advance.lua"),
        ((HOLD, WITHOUT_HOLD),),
        ("older-rdb-cancelled",),
    ),
    "xadd": Safeguard(
        ("lib/meta.lua",),
        (("redis.call('XADD', log_key, id, 'kind', kind, 't', t, unpack(fields))", ""),),
        ("leader-killed",),
    ),
    "advance": Safeguard(
        ("advance.lua",),
        (("progress ~= seen_progress", "false"),),
        ("rules-churned",),
    ),
}  # fmt: skip


def copy_code(folder: Path, without: str | None = None) -> Path:
    """
    Copy zsched into a folder below *folder*, to be first on a daemon's path, and return that folder. So daemons that
    start later run the same code as the first, whatever is edited meanwhile. The copy lacks the safeguard *without*.
    """
    code = folder / "code"
    ours = Path(zsched.__file__).parent
    shutil.copytree(ours, code / "zsched", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    if without is not None:
        safeguard = SAFEGUARDS[without]
        for name in safeguard.files:
            file = code / "zsched" / "lua" / name
            text = file.read_text()
            for line, instead in safeguard.lines:
                if line not in text:
                    raise LookupError(f"{name} has no {line!r} any more: change safeguards.py with it")
                text = text.replace(line, instead)
            file.write_text(text)
    return code
