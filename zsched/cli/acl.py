"""``zsched acl``: the users of Redis with their rights."""

from __future__ import annotations

from zsched.cli.program import DONE, Invocation, command
from zsched.storage.keys import keys_of
from zsched.storage.rights import acl_file


@command()
def acl(invocation: Invocation) -> int:
    """
    Print an ACL file for Redis: a user for each kind of process, with the rights to the namespace and to RQ's keys that
    it needs. Redis refuses the file until the SHA-256 of each user's password is in it, as the last example writes it.
    The command does not connect to Redis.

    \b
    Examples:
      zsched acl > users.acl
      zsched acl -n mail > users.acl
      RQ_KEY_PREFIX='{mail}:rq' zsched acl -n mail > users.acl
      sed -i "s/#SHA256-OF-operator /#$(sha256sum < operator.password | cut -d ' ' -f 1) /" users.acl
    """
    text = acl_file(keys_of(invocation.settings()))
    invocation.answer({"acl": text}, text.removesuffix("\n"))
    return DONE
