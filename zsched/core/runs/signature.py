"""
The form of a signature, and its place in a row.

A signature is ``<key id>.<valid until>.<code>``: 1 to 8 of a-z and 0-9, epoch seconds in nine hexadecimal digits, and
128 bits in base64, without padding. A job has it in the field ``zs_sig``, besides ``data``.

A row of a put, in a call and in the log, has its data under a name. The name is the signature, or ``data`` if there is
none. So rows have the same form with and without signatures. No signature is ``data``.
"""

from __future__ import annotations

import re
from typing import Final

SIGNATURE_FIELD: Final = "zs_sig"
UNSIGNED: Final = b"data"  # the name of data without a signature
_FORM: Final = re.compile(rb"([a-z0-9]{1,8})\.([0-9a-f]{9})\.([A-Za-z0-9+/]{22})")


def parts_of(signature: bytes) -> tuple[str, int, bytes] | None:
    """Return key id, valid until in epoch seconds, and code of *signature*; None if it has another form."""
    found = _FORM.fullmatch(signature)
    return None if found is None else (found[1].decode(), int(found[2], 16), found[3])


def signature_in(name: bytes) -> bytes:
    """Return the signature that is the *name* of data, or b""."""
    return b"" if name == UNSIGNED else name


def job_pairs(name: bytes, data: bytes) -> list[bytes]:
    """Return the pairs of a job for the *data* of a row under *name*: its data, and its signature if it has one."""
    return [UNSIGNED, data] if name in (UNSIGNED, b"") else [UNSIGNED, data, SIGNATURE_FIELD.encode(), name]
