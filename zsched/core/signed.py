"""
The form of a signature, and its place behind the data in a row.

A signature is ``<key id>.<valid until>.<code>``: 1 to 8 of a-z and 0-9, epoch seconds in nine hexadecimal digits, and
128 bits in base64url. A job has it in the field ``zs_sig``, besides ``data``. A row of a put, in a call and in the log,
has it behind the data after a line feed, so rows have the same form with and without signatures (lua/lib/signed.lua).

Data never ends like a signature: a pickle ends with a full stop, JSON with a bracket, and the encoder of payloads
leaves deflated data that would as it was (``storage.rqjob``).
"""

from __future__ import annotations

import re
from typing import Final

SIGNATURE_FIELD: Final = "zs_sig"
_FORM: Final = re.compile(rb"([a-z0-9]{1,8})\.([0-9a-f]{9})\.([A-Za-z0-9_-]{22})")
_BEHIND: Final = re.compile(rb"\n(" + _FORM.pattern + rb")\Z")
_LONGEST: Final = 42  # bytes, with the line feed
_CODE_AT: Final = -23  # the full stop before the code


def parts_of(signature: bytes) -> tuple[str, int, bytes] | None:
    """Return key id, valid until in epoch seconds, and code of *signature*; None if it has another form."""
    found = _FORM.fullmatch(signature)
    return None if found is None else (found[1].decode(), int(found[2], 16), found[3])


def signed(data: bytes, signature: bytes) -> bytes:
    """Return the text of a row for *data* with *signature*; b"" is none."""
    return data + b"\n" + signature if signature else data


def signature_behind(text: bytes) -> tuple[bytes, bytes]:
    """Return the data and the signature in the *text* of a row: the inverse of ``signed``."""
    if text[_CODE_AT : _CODE_AT + 1] != b".":  # the usual case: quicker than a search
        return text, b""
    found = _BEHIND.search(text, max(len(text) - _LONGEST, 0))
    return (text, b"") if found is None else (text[: found.start()], found[1])


def with_data(text: bytes) -> list[bytes]:
    """Return the pairs of a job for the *text* of a row: its data, and its signature if there is one."""
    data, signature = signature_behind(text)
    pairs = [b"data", data]
    return [*pairs, SIGNATURE_FIELD.encode(), signature] if signature else pairs
