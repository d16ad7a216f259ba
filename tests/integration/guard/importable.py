"""A module that no worker may import: importing it leaves a receipt."""

from tests.integration.guard.tasks import leave

leave("imported")


def work(name: str) -> None:
    leave(name)
