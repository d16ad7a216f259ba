"""
The console: pages on which people see schedules, understand what ran and what did not, and act.

::

    a page's module ─► View: caller, zone of time, links ─► AsyncClient: what the API shows, too
         │                                                  actions: what the API changes, too
         └─► templates/console/<page>.html

A page: ``now``, ``timeline`` (the forecast, too), ``schedules`` (many, and one), ``edit`` (their form), ``runs``,
``operations`` (queues, workers, daemons, log, doctor, accounts). ``drawing`` has the marks of occurrences, and their
places; ``view`` also the places of the commands that remedies name.

All is in the URL, so a page can be shared. Pages are read without scripts. With them, htmx exchanges the parts that
live: a request of htmx gets the page's block ``live`` alone. A change is a form: it is sent by POST, and its answer
leads back to a page, which says what was done. ``now`` reads once for all viewers what is costly.
"""
