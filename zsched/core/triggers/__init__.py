"""
Recurring triggers: the times of a schedule. Pure, without state; integers of epoch milliseconds.

``build`` makes a ``Trigger`` of a ``TriggerSpec``, ``spec_of`` reads a stored one, and ``check`` refuses rules that
never fire. Each kind is a module with one ``TriggerKind``, listed in ``trigger.KINDS``. All decisions about zones, gaps
and folds are made in this package and nowhere else.

Reading order: spec, zones, wall_clock (sets of days and of local times), projection (local times to instants),
then the kinds every, cron, rrule with recurrence, and trigger, which lists them.
"""
