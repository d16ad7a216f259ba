"""
``zsched up``: everything on one machine, and a demonstration of it.

stack has the processes, tasks what the workers do, runs learns what fires and what workers make of it, screen tells
it, play has the schedules and brings all together.
"""
