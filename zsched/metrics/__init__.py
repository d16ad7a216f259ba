"""
Numbers of one daemon for Prometheus, and two pages that say whether it lives and whether it is of use.

``meter`` notes what the daemon tells while it works, and counts what the log says. ``collector`` looks at Redis when
somebody asks, and makes Prometheus' families of all that; ``serving`` puts them on a port, whose server is ``pages``.
``collector`` and ``serving`` alone know prometheus_client, which comes with the extra ``ops``.

Every label takes a bounded number of values (``meter.Names``), whatever queues there are. No page names Redis'
password: none is made of settings.
"""
