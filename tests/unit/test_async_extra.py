"""AsyncClient without its extra."""

from __future__ import annotations

import importlib
import sys

import pytest

import zsched


def test_the_error_without_greenlet_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("zsched.aio")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "greenlet", None)
    monkeypatch.delitem(vars(zsched), "AsyncClient", raising=False)

    with pytest.raises(ImportError, match=r"pip install 'zsched\[async\]'"):
        importlib.import_module("zsched.aio")
