"""An auditor without a daemon, called step by step."""

from __future__ import annotations

import pytest

from tests.integration.archive.ground import Scene
from tests.integration.auditor.ground import Auditing


@pytest.fixture
def auditing(scene: Scene) -> Auditing:
    return Auditing(scene)
