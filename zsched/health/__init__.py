"""
One model of health: facts, checks that judge them, and a verdict.

``zsched status``, ``zsched doctor``, the service manager's status line and ``/readyz`` are views of it, so they cannot
disagree. A check is one function, with its name, severity, text and remedy, in one of the modules ``checks_…``.

Reading order: facts (the input of checks, a check, and its findings), checks_daemons (queues, too), checks_recent
(schedules, too), checks_archives and checks_server (checks of facts), verdict (problems and warnings, the worst first,
with the commands of their remedies). For the doctor alone: the others, and doctor, which runs all checks.
"""
