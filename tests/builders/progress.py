"""The progress of a recurring schedule, a text of its hash (lua/lib/progress.lua), for tests that look at its words."""

from typing import Any

import redis

from zsched.storage.keys import Keys

WORDS = ("nominal", "last", "state", "version")


def words_of(id: str, progress: str) -> dict[str, str]:
    """Return the words that are there by name; ``last`` is the whole run id. None of a text of another form."""
    found = progress.split(" ")
    words = {name: word for name, word in zip(WORDS, found, strict=False) if word != "-" and len(found) == len(WORDS)}
    return words | ({"last": f"{id}-{words['last']}"} if "last" in words else {})


def progress_of(client: redis.Redis, keys: Keys, id: str) -> dict[str, str]:
    """Return the words of schedule *id*."""
    return words_of(id, (client.hget(keys.schedule(id), "progress") or b"").decode("utf-8", "replace"))


def change_progress(client: redis.Redis, keys: Keys, id: str, **changes: Any) -> None:
    """Write other words, of any text, into the progress of schedule *id*; None: nothing."""
    words = {"version": "1-1-1"} | progress_of(client, keys, id) | changes
    if words.get("last"):
        words["last"] = words["last"].removeprefix(f"{id}-")
    text = " ".join("-" if words.get(name) is None else str(words[name]) for name in WORDS)
    client.hset(keys.schedule(id), "progress", text)
