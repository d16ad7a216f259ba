"""
``zsched up``: everything on one machine, and a demonstration of it.

``stack`` has the processes, ``tasks`` the tasks of the workers. ``runs`` reads fires from the log, and results from
RQ's jobs. ``screen`` shows them. ``play`` has the schedules and runs the demonstration.
"""
