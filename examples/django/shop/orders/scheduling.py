"""The client of the process: made at its first use, and used by all threads."""

from functools import cache

from django.conf import settings

from zsched import Client


@cache
def client() -> Client:
    """Return it. It does not connect before its first call."""
    return Client.from_url(settings.ZSCHED_REDIS_URL)
