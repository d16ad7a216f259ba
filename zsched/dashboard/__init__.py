"""
rq-dashboard for operators of zsched: the contents of RQ's queues and registries, and the outcome of each run.

It is read-only, and ``zsched web`` serves it under ``/rq`` (``web.rq`` says to whom). Requests that would change
something are refused: rq-dashboard's own changes are not in zsched's log, have no CSRF protection, and write
a JSON job's meta as pickle. Use ``zsched retry``, ``cancel-run`` and ``pause`` instead. The contents of jobs are read
without running code, and shown with the schedule and its nominal time. Passwords of Redis are in no page:
rq-dashboard gets a connection, and a URL without a password.

``app`` imports rq-dashboard and Flask, packages of the extra ``dashboard``.

Not guaranteed: a page does not show one moment (it takes many commands). Schedules that are not yet in RQ are not
shown; see ``zsched ls`` and ``status``. Behind Sentinels, the pages stay with a former master until that closes its
connections.
"""
