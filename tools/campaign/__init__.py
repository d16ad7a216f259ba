"""
The fault campaign: real processes under real load, faults at random and at named points, then an audit.

Two daemons with an archive each, two RQ workers, a private Redis with an append-only file, and clients that write all
the time. When the faults are over and everything is back, the replies to the clients are compared with the runs that
workers received, with every history of the log, and with the contents of Redis.

Run it with ``python -m tools.campaign --help``, or ``make faults``. To read: ``stage`` (the processes),
``clients`` (the load) with ``calls`` (requests and replies), ``receipts`` and ``workers`` (received runs), ``faults``
(the list) with ``plain``, ``losing``, ``crowds`` and ``clocks`` (the faults), ``run`` (the order of events),
``witnesses`` (the evidence), ``histories`` (the logs), ``checks``, ``rhythms``, ``queued`` and ``places`` (the
promises), ``verdict`` (the summary), ``safeguards`` (proof that the audit can fail).
"""
