"""
RQ's error "Invalid attribute name": what a worker did not find, and what to do.

A worker imports the longest part of a function's path that it can, and looks for the rest in it (rq/utils.py,
``import_attribute``, RQ 2.8 to 3.0). If something is missing, RQ names the whole path if nothing could be imported or a
class lacks the method, else the last part of the path only. It hides why a module could not be imported. So a missing
function and a missing module may look the same. Python's own error before it, in the traceback, has the difference.
"""

from __future__ import annotations

import re
from typing import Final

_ERROR: Final = re.compile(r"ValueError: Invalid attribute name: ([\w.]+)")
_CALL: Final = ", in import_attribute\n"
_IMPORTED: Final = re.compile(r"^AttributeError: module '([\w.]+)' has no attribute '([\w.]*)'", re.MULTILINE)
_NO_BUILTIN: Final = re.compile(r"^KeyError: ", re.MULTILINE)  # the last that RQ tries, if no module was imported
_TOLD: Final = re.compile(r"ValueError: .* \((?:cannot import ([\w.]+)|([\w.]+) has no (\w+))\)")


def with_what_is_missing(error: str, traceback: str, before: str) -> str:
    """
    Return *error*, followed by what the worker did not find if it is this error of RQ: ``(cannot import app.tasks)``,
    ``(app.tasks has no charge)``. *traceback* is its own part of the text, *before* that of the exception before it.
    """
    found = _ERROR.fullmatch(error)
    if found is None or _CALL not in traceback:
        return error
    owner, _, last = found[1].rpartition(".")
    if module := _IMPORTED.search(before):
        missing = f"cannot import {module[1]}.{module[2]}" if module[2] else f"{module[1]} has no {last}"
    elif owner:
        missing = f"cannot import {owner}" if _NO_BUILTIN.search(before) else f"{owner} has no {last}"
    else:
        return error
    return f"{error} ({missing})"


ITS_PLACE: Final = "where its worker runs"  # until the host is known


def remedy_of(error: str) -> str:
    """Return what to do about *error*, a result of ``with_what_is_missing``; "" for another error."""
    told = _TOLD.fullmatch(error)
    if told is None:
        return ""
    module, owner, name = told.groups()
    if module:
        how = f"python -c 'import {module}' runs it, and says why it fails"  # any writer of RQ's keys can name it
        return f"deploy {module} {ITS_PLACE}; if it is there, and yours, {how}"
    return f"deploy {owner} with its {name} {ITS_PLACE}, and restart the worker"
