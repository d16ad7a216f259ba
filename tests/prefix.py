"""
The prefix of RQ's keys in this run of the tests: ``rq``, or what ``RQ_KEY_PREFIX`` says.

``RQ_KEY_PREFIX=… make test`` runs all tests with another one.
"""

from typing import Final

import pytest

from zsched.storage.rqkeys import RQ_PREFIX, RqKeys
from zsched.storage.rqversion import HAS_PREFIX

RQ: Final = RqKeys().prefix
IN_ENVIRONMENT: Final = [] if RQ == RQ_PREFIX else [f"RQ_KEY_PREFIX={RQ}"]  # what a remedy gives a worker

needs_prefix: Final = pytest.mark.skipif(not HAS_PREFIX, reason="RQ gives its keys no prefix before 3")
