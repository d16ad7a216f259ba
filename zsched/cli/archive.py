"""``zsched archive``: keep archives, and restore what Redis lost. Each command is imported when it is called."""

from __future__ import annotations

from typing import Final

from zsched.cli.program import LazyCommand, group

_COMMANDS: Final = (
    ("keep", "processes.archivist", "Keep one more archive, without a daemon."),
    ("recover", "recovering.command.recover", "Restore from an archive what Redis lost."),
)


@group("archive")
def archive() -> None:
    """
    Keep one more archive, or restore from one what Redis lost.

    \b
    Examples:
      zsched archive recover --dry-run
      zsched archive recover --from /backup/archive.db
      zsched archive keep --config /etc/zsched/zsched.toml
    """


for _name, _place, _summary in _COMMANDS:
    archive.add_command(LazyCommand(_name, f"zsched.cli.{_place}", _summary))
