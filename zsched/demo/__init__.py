"""
``zsched up``: everything on one machine, and a demonstration of it.

``stack`` has the processes, ``tasks`` the tasks of the workers. ``play`` has the schedules, runs the demonstration and
shows the log.
"""
