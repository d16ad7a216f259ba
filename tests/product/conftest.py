"""
The fixture that zsched offers to products.

A product loads it in its topmost conftest.py, by ``pytest_plugins``; pytest does not allow that in a folder of a suite,
which this is.
"""

from zsched.testing.fixtures import scheduler

__all__ = ["scheduler"]
