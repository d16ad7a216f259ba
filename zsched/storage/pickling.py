"""
Pickles of calls, as short as RQ reads them.

RQ pickles a call with a memo, so that an object that appears twice in its arguments is one object in the worker, too. A
call with texts, bytes, numbers and None only needs no memo: none of them can change, or contain another. Without memo,
PROTO and FRAME it has 16 bytes less, and a waiting job 32 bytes less in Redis. ``pickle.loads`` reads both forms, and
no stream of zlib begins as they do, which RQ tries first.

Calls with other arguments are pickled as RQ does it.
"""

import pickle
import pickletools
import re
import threading
from typing import Any, Final

_PROTOCOL: Final = pickle.HIGHEST_PROTOCOL
_HEAD: Final = 11  # bytes of PROTO and FRAME
_SINGLE: Final = frozenset({str, bytes, int, float, bool, type(None)})
_HALF: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")  # a lone surrogate as pickle writes it, or other bytes


class _Written(list[bytes]):
    write = list.append


class CallPickler(threading.local):
    """Pickles calls: ``dumps(call)``. Each thread has a pickler, which it uses again and again."""

    def __init__(self) -> None:
        written = _Written()
        pickler = pickle.Pickler(written, _PROTOCOL)
        pickler.fast = True  # without memo
        dump, pop = pickler.dump, written.pop

        def dumps(call: tuple[Any, ...]) -> bytes:
            path, _instance, args, kwargs = call
            is_plain = _SINGLE.issuperset(map(type, args)) and type(path) is str
            if is_plain and (not kwargs or _SINGLE.issuperset(map(type, (*kwargs, *kwargs.values())))):
                dump(call)
                raw = pop()
                if not written:
                    return raw[_HEAD:]
                written.clear()  # it has more than one frame
            return pickled(call)

        self.dumps = dumps


def pickled(value: Any) -> bytes:
    """Return the pickle of *value*, as RQ makes it. Raises any error, as pickling runs the values' own code."""
    return pickle.dumps(value, _PROTOCOL)


def demand_characters(raw: bytes) -> None:
    """Raise UnicodeEncodeError if a text in the pickle *raw* has a lone surrogate."""
    if _HALF.search(raw):
        for _, argument, _ in pickletools.genops(raw):
            if isinstance(argument, str):
                argument.encode()
