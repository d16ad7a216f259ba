"""
The command line: one file per group of commands, all thin over ``zsched.client``.

Reading order: program (exit codes, shared options, a command's context, errors), values (parses arguments), output
(formats results), functions (resolves dotted paths), then the commands. Three files are parts of commands: status_view
reads the data of ``zsched status``, status_screen formats it, and import_steps runs an import.

Results go to stdout, everything else to stderr; with ``--json`` both are JSON, and an error is
``{"error": …, "type": …}`` on stderr.
"""

from __future__ import annotations

from zsched.cli.acl import acl
from zsched.cli.files import apply, export
from zsched.cli.functions import tasks
from zsched.cli.health import doctor, status
from zsched.cli.history import history, why
from zsched.cli.imports import import_
from zsched.cli.listing import ls, next_, show
from zsched.cli.lives import backfill, cancel, cancel_run, pause, resume, retry, run
from zsched.cli.log import log
from zsched.cli.processes import daemon, dashboard, up
from zsched.cli.program import program
from zsched.cli.puts import add, set_
from zsched.cli.recover import recover

__all__ = ["main", "program"]

_COMMANDS = (
    *(add, set_, ls, show, cancel, pause, resume, run, retry, cancel_run, backfill, next_, why, history, log),
    *(tasks, apply, export, import_, status, doctor, acl, dashboard, recover, daemon, up),
)
for _command in _COMMANDS:
    program.add_command(_command)


def main() -> int:
    """Run the command line of this process and return its exit code."""
    code: int = program.main(prog_name="zsched", standalone_mode=False)
    return code
