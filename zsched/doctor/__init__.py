"""
``zsched doctor``: is everything that zsched stands on as it needs it, and if not, what to do?

A *check* is a function that looks at one subject of one Redis and yields what it finds, with a verdict, and a remedy
where there is something to do. It says something in any case, so what was looked at can be read from the report.

Reading order: finding (what a check says), patient (what it is given), commands (what remedies give to copy), then the
subjects: server, memory, persistence, clocks, rights (and asking), walls, passwords, keyspace, namespace, archives,
leftovers, workers, rivals; and examination, which runs them. A command of a remedy stands at its end.

Nothing is written, in Redis or elsewhere, no daemon is needed, and no right beyond reading: what a check may not ask is
told as skipped, with the reason. Looks at what may be many are bounded, and say so.

Not guaranteed: that what was well at the moment of its check is well a moment later; that a schedule behind the bounds
is well; anything about workers that RQ does not write down, as their serializer.
"""
