"""An auditor without a daemon, called step by step."""

import pytest

from tests.builders.scenes import Scene
from tests.integration.auditor.auditing import Auditing


@pytest.fixture
def auditing(scene: Scene) -> Auditing:
    return Auditing(scene)
