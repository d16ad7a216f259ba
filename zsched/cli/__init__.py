"""
The command line: one file per group of commands, all thin over ``zsched.client``.

Reading order: program (exit codes, shared options, a command's context, errors), parameters (arguments and options that
several commands have), functions (resolves dotted paths), formats (times and runs as texts), output (what a command
shows, on a terminal or elsewhere; progress), then the commands. Three files are parts of commands: status_screen
formats ``zsched status``, repairs changes many schedules or runs, and import_steps runs an import.

Results go to stdout, everything else to stderr; with ``--json`` both are JSON, and an error is
``{"error": …, "type": …}`` on stderr.
"""

import gc
from typing import Final

from zsched.cli.program import RARE, LazyCommand, program

__all__ = ["main", "program"]

# In the order of use, in groups: name, module and function, and its line in `zsched --help`, of at most 60 characters.
_COMMANDS: Final = {
    "Everyday": (
        ("worker", "worker.worker", "Run a worker of RQ, by zsched's settings."),
        ("status", "health.status", "Show the health of the namespace."),
        ("why", "history.why", "Tell the story of a schedule or of a run."),
        ("history", "history.history", "Show the latest occurrences and their outcomes."),
        ("ls", "listing.ls", "List schedules."),
        ("add", "puts.add", "Create or replace a schedule."),
        ("pause", "lives.pause", "Stop schedules until they are resumed."),
        ("resume", "lives.resume", "Resume paused schedules."),
        ("cancel", "lives.cancel", "Cancel schedules; they never fire again."),
        ("retry", "lives.retry", "Run a finished run once more."),
    ),
    "Schedules": (
        ("show", "listing.show", "Show a schedule, its next times and its last runs."),
        ("forecast", "forecast.forecast", "Show what will fire, how much, and if workers keep up."),
        ("set", "puts.set_", "Change some options of a schedule, and keep the others."),
        ("skip", "lives.skip", "Skip an occurrence of a schedule, or take that back."),
        ("run", "lives.run", "Push a run of a schedule at once."),
        ("apply", "files.apply", "Create and update the schedules of a TOML file."),
        ("calendars", "calendars.calendars", "Named times without runs: list, show, put, delete."),
        ("import", "imports.import_", "Take over schedules from cron, rq-scheduler or RQ."),
    ),
    "Processes": (
        ("up", "processes.up", "Run a private Redis, the daemon and a worker here."),
        ("daemon", "processes.daemon", "Run a daemon in the foreground."),
        ("web", "web.web", "Serve the console and the HTTP API."),
        ("tokens", "tokens.tokens", "Add, list, set and revoke the accounts of zsched web."),
        ("notify", "notify.notify", "List the sinks of the notifier, and send a test to one."),
        ("keys", "keys.keys", "Make signing keys, and sign what waits."),
        ("doctor", "health.doctor", "Check Redis, users' rights, files and RQ around zsched."),
        ("archive", "processes.archive", "Recover what Redis lost, or keep one more archive."),
    ),
    RARE: (
        ("ack", "health.ack", "Make failures known, so that status leaves them out."),
        ("log", "log.log", "Show the log of all changes, or follow it."),
        ("next", "listing.next_", "Show the next times of a schedule or of a rule."),
        ("release", "lives.release", "Release quarantined schedules."),
        ("cancel-run", "lives.cancel_run", "Cancel queued runs, and stop running ones."),
        ("backfill", "lives.backfill", "Run the past occurrences that did not run."),
        ("export", "files.export", "Write the recurring schedules as a TOML file."),
        ("tasks", "functions.tasks", "List the tasks of a module, with their parameters."),
        ("simulate", "files.simulate", "Show what would become of the schedules of a file."),
        ("files", "shipped.shipped", "Print units of systemd, settings, users of Redis, alerts."),
    ),
}
for _group, _commands in _COMMANDS.items():
    for _name, _place, _summary in _commands:
        program.add_command(LazyCommand(_name, f"{__name__}.{_place}", _summary, _group))


def main() -> int:
    """Run the command line of this process and return its exit code."""
    code: int = program.main(prog_name="zsched", standalone_mode=False)
    gc.freeze()  # otherwise the interpreter searches all modules for garbage as it ends: a sixth of `zsched ls`
    return code
