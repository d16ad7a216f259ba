"""Waiting for an archive's answer to ``zsched why``, ``history`` and ``log``, and what they say without one."""

from tests.waiting import WITHIN_S
from zsched.storage.keys import Keys

KEYS = Keys("default")
NO_ANSWER = "no archive reported within 30 s"
ASKING = (  # the command line, which waits for an archive's answer however busy the machine is, with PATIENCE
    f"import sys; from zsched.storage import questions; questions.WAIT_S = {WITHIN_S};"
    "from zsched.cli import main; sys.exit(main())"
)
PATIENCE = {"ZSCHED_REDIS_TIMEOUT_S": f"{2 * WITHIN_S}"}
ALONE = r"from Redis alone, whose log goes back to 20\d\d-\d\d-\d\d .*\+00:00"
