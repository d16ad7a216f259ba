"""
The file of signing keys, which clients and workers read.

A line for each key: its id, its secret, and for a key that may not sign everything, what it may sign::

    # The first key signs. All keys are accepted.
    k2 5f1c…64 hexadecimal digits
    k1 90ab…
    web1 77d0… functions=app.tasks.*,app.mail.send queues=email

A key with limits signs plain values only (``signing.demand_in_limits``). Words are separated by spaces, and ``#``
begins a comment line. Two keys without limits may stand in a file, so that one can replace the other, and two keys with
limits. An id has 1 to 8 of a-z and 0-9. It is a label, and no secret.

A process reads the file again when it has changed, so new keys need no restart. If the changed file cannot be used, the
keys that were read before stay in use.

Whoever can read the file can sign. So the file is refused if its group or others may read it; under systemd, a
credential (``LoadCredential=zsched-signing-keys:…``) is readable by the service alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final, NamedTuple

from zsched.config.reading import SIGNING_CREDENTIAL, Watched, credential_file, read_private
from zsched.core.options.allowed import is_allowed
from zsched.errors import ConfigError

BLOCK_BYTES: Final = 64  # of SHA-256
_SECRET_BYTES: Final = 32  # as long as HMAC-SHA256's result: more gives no more strength
_MOST: Final = 2  # keys of each sort: an old one and a new one
_ID: Final = re.compile(r"[a-z0-9]{1,8}")
_SECRET: Final = re.compile(rf"[0-9a-f]{{{2 * _SECRET_BYTES}}}")
_LIMITS: Final = ("functions", "queues")


class Mac:
    """
    HMAC-SHA256 of a text, as RFC 2104 defines it, from which the codes of longer texts are made. ``hmac.digest`` takes
    four times as long, because it looks up its hash at each call (measured with OpenSSL 3).
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, inner: hashlib._Hash, outer: hashlib._Hash) -> None:
        self._inner, self._outer = inner, outer

    def after(self, text: bytes) -> Mac:
        """Return the code of its text and *text*, to be continued."""
        inner = self._inner.copy()
        inner.update(text)
        return Mac(inner, self._outer)

    def code(self, text: bytes) -> bytes:
        """Return the code of its text and *text*."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.digest()


@dataclass(frozen=True)
class SigningKey:
    """A key. ``functions``: patterns of what it may sign, and ``queues``; None: everything."""

    id: str
    secret: bytes = field(repr=False)
    functions: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None

    @cached_property
    def mac(self) -> Mac:
        """The code of an empty text, which can be continued."""
        block = self.secret.ljust(BLOCK_BYTES, b"\0")
        return Mac(*(hashlib.sha256(bytes(each ^ pad for each in block)) for pad in (0x36, 0x5C)))

    @property
    def is_limited(self) -> bool:
        """True if it may not sign everything."""
        return self.functions is not None or self.queues is not None

    def problem_of(self, paths: list[str], queue: str) -> str:
        """Return why it may not sign a call of the dotted *paths* in *queue*; or ""."""
        for path in paths if self.functions is not None else ():
            if not is_allowed(path, self.functions or ()):
                return f"key {self.id!r} may not sign {path}"
        if self.queues is not None and queue not in self.queues:
            return f"key {self.id!r} may not sign for queue {queue!r}"
        return ""


class KeyRing(NamedTuple):
    """The keys of a file, by id. ``first`` signs."""

    keys: Mapping[str, SigningKey]
    first: SigningKey


class KeyFile(Watched[KeyRing]):
    """The keys of a *file*, read when they are first needed."""

    def __init__(self, file: str) -> None:
        path = os.path.expanduser(file)
        super().__init__(path, partial(read_keys, path))


def read_keys(file: str, env: Mapping[str, str] = os.environ) -> KeyRing:
    """
    Read the keys of *file*; *env* has the folder of systemd's credentials.

    Raises:
        ConfigError: it cannot be read, others may read it, or a line is wrong; the message has the line's number.
    """
    place = f"[signing] keys_file={file!r}"
    is_credential = file == credential_file(env, SIGNING_CREDENTIAL)  # systemd grants it by an ACL, seen as the group's
    content = read_private(
        file,
        place,
        made_by="zsched keys new",
        closed_by="make new keys, and give the file the mode 0600",
        owners=(0, os.geteuid()),
        others=0o007 if is_credential else 0o077,
    )
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{place}: it has other characters than ASCII; make one with: zsched keys new") from error
    keys: dict[str, SigningKey] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            key = _key(line.split())
        except ValueError as error:
            raise ConfigError(f"{place}, line {number}: {error}") from None
        if key.id in keys:
            raise ConfigError(f"{place}, line {number}: two keys have the id {key.id!r}; give each its own")
        keys[key.id] = key
    if not keys:
        raise ConfigError(f"{place}: it has no key; add one with: zsched keys new")
    for is_limited in (False, True):
        ids = [key.id for key in keys.values() if key.is_limited is is_limited]
        if len(ids) > _MOST:
            problem = f"{len(ids)} keys ({', '.join(ids)}) {'with' if is_limited else 'without'} limits"
            raise ConfigError(f"{place}: {problem}; keep the new one and the one that it replaces")
    return KeyRing(keys, next(iter(keys.values())))


def new_key_line(id: str) -> str:
    """Return a line with a fresh key. Raises ConfigError: *id* is not a key's id."""
    if not _ID.fullmatch(id):
        raise ConfigError(f"key id {id!r}: use 1 to 8 of a-z and 0-9")
    return f"{id} {secrets.token_hex(_SECRET_BYTES)}"


def _key(words: list[str]) -> SigningKey:
    id, secret, *limits = [*words, ""] if len(words) < 2 else words
    if not _ID.fullmatch(id):
        raise ValueError(f"{id[:20]!r} is not a key id; use 1 to 8 of a-z and 0-9")
    if not _SECRET.fullmatch(secret):  # not shown: it may be a secret with a typing error
        raise ValueError(f"the secret of key {id!r} does not have {2 * _SECRET_BYTES} hexadecimal digits")
    named: dict[str, tuple[str, ...]] = {}
    for limit in limits:
        name, _, value = limit.partition("=")
        if name not in _LIMITS or name in named or not all(value.split(",")):
            raise ValueError(f"{limit[:40]!r} is not a limit of key {id!r}; write {'=…, '.join(_LIMITS)}=…")
        named[name] = tuple(value.split(","))
    return SigningKey(id, bytes.fromhex(secret), named.get("functions"), named.get("queues"))
