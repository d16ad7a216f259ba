"""
BullMQ, where ``node`` and the package are there: NODE_PATH, or ZSCHED_BENCH_NODE_MODULES, names the
``node_modules`` folder that ``npm install bullmq ioredis`` filled.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.arena import Arena
from bench.results import Absent, Broken

NAME = "BullMQ"
VARIABLE = "ZSCHED_BENCH_NODE_MODULES"
_SCRIPT = Path(__file__).with_name("bullmq.mjs")
_LIMIT_S = 300.0  # for one measurement


@dataclass(frozen=True, slots=True)
class BullMQ:
    """A node that has BullMQ."""

    node: str
    modules: Path
    version: str

    @classmethod
    def find(cls) -> BullMQ:
        """
        The one of this machine.

        Raises:
            Absent: node or the package is missing.
        """
        node = shutil.which("node")
        if node is None:
            raise Absent("BullMQ was left out: there is no node on PATH")
        named = [os.environ.get(VARIABLE), *os.environ.get("NODE_PATH", "").split(os.pathsep)]
        for modules in (Path(name) for name in named if name):
            about = modules / "bullmq" / "package.json"
            if about.is_file() and (modules / "ioredis").is_dir():
                return cls(node, modules.resolve(), json.loads(about.read_text("utf-8"))["version"])
        raise Absent(
            f"BullMQ was left out: npm install bullmq ioredis somewhere, and name its node_modules in {VARIABLE}"
        )

    def measure(self, arena: Arena, url: str, task: str, **options: int) -> dict[str, Any]:
        """
        Return the answer of ``bullmq.mjs`` to *task*.

        Raises:
            Broken: it failed, or took longer than five minutes.
        """
        asked = json.dumps({"task": task, "url": url, "modules": str(self.modules), **options})
        child = arena.guard.spawn(
            [self.node, str(_SCRIPT), asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path("/")
        )
        try:
            answer, trouble = child.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"BullMQ, {task}: no answer in {_LIMIT_S:.0f} s") from None
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        if child.returncode:
            raise Broken(f"BullMQ, {task}: {trouble.decode(errors='replace').strip()[-300:]}")
        told: dict[str, Any] = json.loads(answer)
        return told
