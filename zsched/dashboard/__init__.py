"""
rq-dashboard for people who look after zsched: what is in RQ's queues and registries, and what became of each run.

It only looks. Every request needs user and password (``login``); requests that would change something are refused
(``app``), since rq-dashboard's own take no note in zsched's log, know no CSRF protection, and re-write a JSON job's
meta as pickle: ``zsched retry``, ``cancel-run`` and ``pause`` are for that. What stands in jobs is read without running
it, and told with the schedule and the nominal time it is of (``jobs``). Passwords of Redis are in no page:
rq-dashboard is given a connection, and a URL to show that has none.

Reading order: login, jobs, app. Only the last imports what the extra ``dashboard`` brings.

Not guaranteed: that one page is one moment (it is many commands); schedules that are not yet in RQ, as ``zsched ls``
and ``status`` have them; behind Sentinels, that a former master is left before it closes its connections.
"""
