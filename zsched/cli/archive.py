"""``zsched archive``: keep archives, and restore what Redis lost. Each command is imported when it is called."""

from __future__ import annotations

from zsched.cli.program import LazyCommand, group


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


_KEEP, _RECOVER = "Keep one more archive, without a daemon.", "Restore from an archive what Redis lost."
archive.add_command(LazyCommand("keep", "zsched.cli.processes.archivist", _KEEP))
archive.add_command(LazyCommand("recover", "zsched.cli.recovering.command.recover", _RECOVER))
