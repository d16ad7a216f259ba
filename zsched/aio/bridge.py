"""
Functions that wait in the event loop, without ``async`` in their own code.

``run`` calls a function in a greenlet: a stack of its own, which can be left in the middle of a call and entered
again. ``wait``, deep in that call, leaves it with an awaitable. ``run`` awaits it, and enters the call again with the
result or the error; a cancellation is such an error. SQLAlchemy's asyncio extension works in the same way.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, TypeVar

try:
    from greenlet import getcurrent, greenlet
except ImportError as error:
    raise ImportError("zsched.AsyncClient needs greenlet: pip install 'zsched[async]'", name="greenlet") from error

P = ParamSpec("P")
T = TypeVar("T")

_TURN_S: Final = 0.005  # for which a call may keep the event loop


class _Call(greenlet):  # type: ignore[misc]  # greenlet ships no types
    """A running call. ``began_s``: when it was entered last, by the clock of its event loop."""

    began_s = 0.0


async def run(function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T:
    """Return ``function(*arguments, **named)``, which may use ``wait``. Raises what it raises."""
    call, loop = _Call(function), asyncio.get_running_loop()
    call.gr_context = getcurrent().gr_context  # context variables are those of the task
    call.began_s = loop.time()
    step = call.switch(*arguments, **named)
    while not call.dead:
        try:
            result = await step
        except BaseException as error:  # a cancellation, too: the call ends its connection
            call.began_s = loop.time()
            step = call.throw(error)
        else:
            call.began_s = loop.time()
            step = call.switch(result)
    return step  # type: ignore[no-any-return]  # the function's result


def wait(awaitable: Awaitable[T]) -> T:
    """
    Return the result of *awaitable*, in a function that ``run`` called.

    Raises:
        RuntimeError: ``run`` did not call this.
    """
    try:
        parent = demand_run()
    except RuntimeError:
        if asyncio.iscoroutine(awaitable):
            awaitable.close()
        raise
    return parent.switch(awaitable)  # type: ignore[no-any-return]


def demand_run() -> greenlet:
    """Return what ``run`` called this from. Raises RuntimeError: it did not."""
    call = getcurrent()
    if not isinstance(call, _Call) or call.parent is None:
        raise RuntimeError("an asynchronous connection is used outside of AsyncClient's methods: await one of these")
    return call.parent


def yield_turn() -> None:
    """Let other tasks run if this call had the event loop for some milliseconds."""
    call = getcurrent()
    if isinstance(call, _Call) and asyncio.get_running_loop().time() - call.began_s > _TURN_S:
        wait(asyncio.sleep(0))
