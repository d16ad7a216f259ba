"""
``zsched up``: everything on one machine, and a demonstration of it.

stack has the processes, tasks and schedules the product that is played, follow and runs learn what
fires and what workers make of it, screen and summary tell it, play brings them together.
"""
