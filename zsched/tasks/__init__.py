"""
Typed tasks: a function that knows what it takes, where it goes, and what comes after it.

Reading order: signature (whether a payload fits a function), template (an id made of a payload), task (the
decorator, and what calls of a task become), chaining (what a worker does with a ``Next``), importing and lookup
(from a dotted path to a task). Names for users are in ``zsched`` itself.
"""
