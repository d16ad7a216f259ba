"""
Numbers of one daemon for Prometheus, and two pages that say whether it lives and whether it is of use.

``meter`` notes what the daemon tells while it works, ``tally`` counts what the log says; both keep numbers and nothing
else. ``lookout`` looks at Redis when somebody asks, ``collector`` makes Prometheus' families of all three, ``serving``
puts them on a port. Only the last two know prometheus_client, which comes with the extra ``ops``.

Every label takes a bounded number of values (``labels``), whatever queues there are. No page names Redis' password:
none is made of settings.
"""
