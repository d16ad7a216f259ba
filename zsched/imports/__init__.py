"""
Moving in: import the schedules of other schedulers.

    crontab         lines of /etc/crontab, /etc/cron.d and users' crontabs; each calls one function with its command
    rq-scheduler    the jobs of the package rq-scheduler: recurring jobs are copied, one-shots are moved
    rq-cron         the registrations of a module with RQ's own cron (``rq cron``): copied
    rq-scheduled    RQ's own delayed jobs (``enqueue_at``, ``enqueue_in``): moved

Each source is read into an ``ImportSource``: schedules with ids that are the same at every reading, and refusals with
their places. One refusal does not stop the rest. ``moving.Importing`` puts the schedules into Redis, like a file of
schedules, and ``moving.undo`` takes them back.

A copy does not change the source, so both would fire. zsched cannot stop cron, so the import warns about that. While an
rq-scheduler or RQ's cron runs, nothing of it is copied. A one-shot is put here first and then removed from the source,
so at every moment at least one of the two has it.

Not guaranteed: during the move a one-shot may be in both places. If the import is killed between the two commands, a
page of one-shots stays in both. The same import again removes them from the source; run it before their time.

Reading order: ``found``, ``crontab``, ``rqjobs``, ``rqcron``, ``moving`` (and back).
"""
