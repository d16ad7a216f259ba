"""
The fault campaign: real processes under real load, faults at random and at named points, then an audit.

Two daemons with an archive each, two RQ workers, a private Redis with an append-only file, and clients that
write all the time. When the faults are over and everything is back, what the clients were told is compared
with what the workers received, what every history of the log says, and what Redis holds.

Run it with ``python -m tests.faults.campaign --help``, or ``make faults``. To read: ``stage`` (the processes),
``clients`` (the load) with ``calls`` (what they were told), ``receipts`` and ``workers`` (what was received),
``faults`` (the list) with ``plain``, ``losing``, ``crowds`` and ``clocks`` (what they do), ``run`` (the order of
events), ``witnesses`` (what is gathered), ``histories`` (what the logs say), ``checks``, ``rhythms`` and ``places``
(what must hold), ``verdict`` (the summary), ``safeguards`` (that the audit can fail).
"""
