"""Values whose pickles do something where they are opened."""

from collections.abc import Callable


class Bomb:
    """A value whose pickle calls *call* with *arguments* when it is opened."""

    def __init__(self, call: Callable[..., object], *arguments: object) -> None:
        self._call, self._arguments = call, arguments

    def __reduce__(self) -> tuple[object, ...]:
        return self._call, self._arguments
