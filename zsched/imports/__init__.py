"""
Moving in: what other schedulers have, as schedules of zsched.

    crontab         lines of /etc/crontab, /etc/cron.d and users' crontabs; each calls one function with its command
    rq-scheduler    the jobs of the package rq-scheduler: what recurs is copied, one-shots are moved
    rq-cron         what a module registers with RQ's own cron (``rq cron``): copied
    rq-scheduled    RQ's own delayed jobs (``enqueue_at``, ``enqueue_in``): moved

Each source is read into a ``Source``: schedules with ids that are the same at every reading, and refusals with their
places. One refusal does not stop the rest. ``putting`` makes Redis hold it, the same way as a file of schedules, and
``moving.undo`` takes it back.

Who fires what: a copy leaves the source as it is. Nothing here can stop cron, so it is said that both would fire; of
rq-scheduler, and of RQ's cron, nothing is copied while one runs. A one-shot is put here first and then taken out of
where it waited, so that one of the two has it at every moment.

Not guaranteed: that a one-shot is in one place only while it is moved. Who is killed between the two commands leaves
a page of them in both; the same import again takes them out, and has to be run before their time.

Reading order: ``found``, ``fields``, ``crontab``, ``rqjobs``, ``rqcron``, ``moving`` (and back), ``putting``.
"""
