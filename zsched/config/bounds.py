"""Defaults and bounds that the settings share with other users of the same values, such as a client's arguments."""

from typing import Final

VALID_DAYS: Final = 400  # of a signature: a schedule that is put once a year stays valid
MOST_VALID_DAYS: Final = 36_500

RQ_PREFIX_FORM: Final = r"[A-Za-z0-9_.:{}-]{1,64}"  # RQ's prefix; safe in a text of Lua, and in a pattern of an ACL
RQ_PREFIX_REMEDY: Final = "use 1 to 64 of a-z, A-Z, 0-9 and _ . : - { }"

# Of [notify.<name>]: the filters of schedules, and the words of ``on``.
FILTERS: Final = ("funcs", "queues", "owners", "tags")
TOLD: Final = ("failed", "lost", "expired", "missed", "skipped", "deadline", "quarantined", "unhealthy")
