"""
The command line: one file per group of commands, all thin over ``zsched.client``.

Reading order: program (exit codes, shared options, a command's context, errors), values (parses arguments), output
(formats results) with formats (times and runs), functions (resolves dotted paths), then the commands. Three files are
parts of commands: status_view reads the data of ``zsched status``, status_screen formats it, and import_steps runs an
import.

Results go to stdout, everything else to stderr; with ``--json`` both are JSON, and an error is
``{"error": …, "type": …}`` on stderr.
"""

from __future__ import annotations

from typing import Final

from zsched.cli.program import LazyCommand, program

__all__ = ["main", "program"]

# In the order of use: name, module and function, and its line in `zsched --help`, which leaves it 60 characters.
_COMMANDS: Final = (
    ("add", "puts.add", "Create or replace a schedule."),
    ("set", "puts.set_", "Change some options of a schedule; the others stay."),
    ("ls", "listing.ls", "List schedules."),
    ("show", "listing.show", "Show a schedule, its next times and its last runs."),
    ("cancel", "lives.cancel", "Cancel schedules; they never fire again."),
    ("pause", "lives.pause", "Stop schedules until they are resumed."),
    ("resume", "lives.resume", "Resume paused schedules."),
    ("run", "lives.run", "Push a run of a schedule at once."),
    ("retry", "lives.retry", "Run a finished run once more."),
    ("cancel-run", "lives.cancel_run", "Cancel queued runs, and stop running ones."),
    ("backfill", "lives.backfill", "Run the past occurrences that did not run."),
    ("next", "listing.next_", "Show the next times of a schedule or of a rule."),
    ("why", "history.why", "Tell the story of a schedule or of a run."),
    ("history", "history.history", "Show the latest occurrences and their outcomes."),
    ("log", "log.log", "Show the log of all changes, or follow it."),
    ("tasks", "functions.tasks", "List the tasks of a module, with their parameters."),
    ("apply", "files.apply", "Create and update the schedules of a TOML file."),
    ("export", "files.export", "Write the recurring schedules as a TOML file."),
    ("import", "imports.import_", "Take over schedules from cron, rq-scheduler or RQ."),
    ("status", "health.status", "Show the health of the namespace."),
    ("doctor", "health.doctor", "Check Redis, users' rights, files and RQ around zsched."),
    ("acl", "acl.acl", "Print an ACL file for Redis, with the users that it needs."),
    ("dashboard", "processes.dashboard", "Show RQ's queues, jobs and workers in the browser."),
    ("recover", "recover.recover", "Put back from an archive what Redis lost."),
    ("daemon", "processes.daemon", "Run a daemon in the foreground."),
    ("up", "processes.up", "Run a private Redis, the daemon and a worker here."),
)
for _name, _place, _summary in _COMMANDS:
    program.add_command(LazyCommand(_name, f"{__name__}.{_place}", _summary))


def main() -> int:
    """Run the command line of this process and return its exit code."""
    code: int = program.main(prog_name="zsched", standalone_mode=False)
    return code
