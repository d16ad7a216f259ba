"""A scene, closed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.integration.archive.ground import Scene


@pytest.fixture(params=["default", "shop"])
def scene(redis_client: redis.Redis, redis_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    scene = Scene(redis_client, redis_url, tmp_path, request.param)
    yield scene
    scene.close()
