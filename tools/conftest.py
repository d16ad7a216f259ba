"""Tests of the tools use the fixtures of the suite. A folder above the suite's own has no other way to them."""

pytest_plugins = ["tests.conftest"]
