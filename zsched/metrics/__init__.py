"""
Metrics of one daemon, or of one ``zsched web``, for Prometheus; and a daemon's health pages: is it alive, and ready?

``meter`` records measurements of the running daemon and counts entries of the log. ``collector`` reads Redis at a
scrape and builds Prometheus' metric families. ``serving`` publishes them on a port, with the server in ``pages``.
``web_meter`` and ``web_collector`` are the same for ``zsched web``, which publishes them itself. Both collectors make
their families by ``families``. Only these three and ``serving`` import prometheus_client, of the extra ``ops``.

Every label has a bounded number of values (``meter.Names``), however many queues exist. No page shows Redis'
password, since no page shows settings.
"""
