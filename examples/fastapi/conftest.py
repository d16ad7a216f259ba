"""Gives the tests the fixture ``scheduler``."""

pytest_plugins = ["zsched.testing.fixtures"]
