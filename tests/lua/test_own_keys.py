"""zsched's own keys of a wrong type: nothing is written until the key is moved away, and nothing is lost."""

import pytest

from tests.builders.namespaces import Namespace, put_due
from tests.lua.scene import contents
from zsched.errors import Garbled

KEYS = ["due_high", "due_low", "quarantine", "deadlines", "limits", "recurring"]


@pytest.mark.parametrize("key", KEYS)
def test_fire_writes_nothing_until_its_key_is_renamed_and_then_fires_everything(led: Namespace, key: str) -> None:
    runs = put_due(led, "a", "b")
    led.put_recurring("r", due_ms := led.now_ms - 10)
    name = getattr(led.keys, key)()
    led.redis.delete(name)
    led.redis.set(name, "odd")
    before = contents(led)

    for _ in range(2):
        with pytest.raises(Garbled) as caught:
            led.fire()

        kind = led.keys.types()[name]
        assert f"{name} is a string, and has to be a {kind}: another program wrote it" == caught.value.problem
        assert f"redis-cli RENAME {name} wrong:{name}" in caught.value.remedy
        assert before == contents(led)

    led.redis.rename(name, f"wrong:{name}")
    fired = led.fire()
    assert (2, runs, [["r", "normal", str(due_ms)]]) == (fired.runs, led.queue(), [row[:3] for row in fired.recurring])
