"""
Metrics of one daemon for Prometheus, and two health pages: is the daemon alive, and is it ready?

``meter`` records measurements of the running daemon and counts entries of the log. ``collector`` reads Redis at a
scrape and builds Prometheus' metric families. ``serving`` publishes them on a port, with the server in ``pages``.
Only ``collector`` and ``serving`` import prometheus_client, which comes with the extra ``ops``.

Every label has a bounded number of values (``meter.Names``), however many queues exist. No page shows Redis'
password, since no page shows settings.
"""
