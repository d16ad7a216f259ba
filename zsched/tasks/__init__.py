"""
Typed tasks: a function with a checked payload, its own schedule options, and following runs.

Reading order: signature (checks that a payload fits a function), template (an id made of a payload), task (the
decorator, and the calls of a task), chaining (a worker schedules a ``Next``), importing and lookup (from a dotted path
to a task). Names for users are in ``zsched`` itself.
"""
