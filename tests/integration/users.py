"""A redis-server under deploy/redis/users.acl, its passwords filled in by the steps that README.md beside it gives."""

import re
import subprocess
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.waiting import ENDS_S, WITHIN_S, eventually
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.keys import Keys
from zsched.storage.rights import acl_file

DEPLOY = Path(__file__).parents[2] / "deploy" / "redis"
# What is refused in passing, and does no harm (README.md): to RQ's worker, and to redis-py's connections.
HARMLESS = {"client", "client|list", "client|setinfo"}


def fill_in_passwords(folder: Path, rq_prefix: str | None = None) -> Path:
    """Copy the ACL file into *folder*, with passwords filled in and written beside it."""
    keys = Keys("default", rq_prefix)
    (folder / "users.acl").write_text(acl_file(keys))  # deploy/redis/users.acl, if the prefix is RQ's own
    [steps] = re.findall(r"^```sh\n(.*?)^```", (DEPLOY / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    subprocess.run(["bash", "-euo", "pipefail", "-c", steps], cwd=folder, check=True, timeout=ENDS_S)
    return folder / "users.acl"


def refusals(client: redis.Redis) -> list[str]:
    """Return the harmful refusals that *client* finds in ACL LOG: user, reason and command or key."""
    return [
        f"{entry['username']}: {entry['reason']} {entry['object']}"
        for entry in client.acl_log()
        if not (entry["reason"] == "command" and entry["object"] in HARMLESS)
    ]


class GuardedRedis:
    """The server, and its users by name."""

    def __init__(self, folder: Path, guard: Guard, *, appendonly: bool = False) -> None:
        self._folder = folder
        config = {"aclfile": str(fill_in_passwords(folder))}
        self.server = EmbeddedRedis(tcp=True, appendonly=appendonly, guard=guard, config=config)
        self.server.start()

    def restart(self) -> None:
        """
        Restart the server with the contents of its files. Redis asks for a password before it says that it is loading.
        """
        self.server.restart()
        eventually(self._serves)

    def _serves(self) -> bool:
        try:
            with self.connect("operator") as operator:
                return bool(operator.ping())
        except redis.exceptions.BusyLoadingError:
            return False

    def password(self, user: str) -> str:
        return (self._folder / f"{user}.password").read_text().strip()

    def password_file(self, user: str) -> str:
        return str(self._folder / f"{user}.password")

    def url(self, user: str, *, with_password: bool = True) -> str:
        """The URL of the server, with *user* in it."""
        userinfo = f"{user}:{self.password(user)}" if with_password else user
        return self.server.tcp_url.replace("://", f"://{userinfo}@")

    def connect(self, user: str, **options: Any) -> redis.Redis:
        """Return a plain client of *user*."""
        return redis.Redis.from_url(
            self.url(user), protocol=2, retry=Retry(NoBackoff(), 0), socket_timeout=WITHIN_S, **options
        )

    def refused(self) -> list[str]:
        """Return the harmful refusals in ACL LOG: user, reason and command or key."""
        with self.connect("operator") as operator:
            return refusals(operator)

    def empty(self) -> None:
        """Empty the server and its log of refusals."""
        with self.connect("operator") as operator:
            operator.flushall()
            operator.acl_log_reset()
