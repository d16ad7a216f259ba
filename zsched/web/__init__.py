"""
The HTTP API and the pages of ``zsched web``, an ASGI application on the asynchronous client.

::

    connections ─► measuring, deadline ─► calls, access: who asks, and their rights ─► a route ─► AsyncClient
      limits         counts, a time limit                                  reading: JSON as options ─┘
                                                                           problems: errors as RFC 9457 says

Routes of the API: ``schedules`` (one), ``bulk`` and ``batch`` (many), ``occurrences``, ``runs``, ``changes`` and
``events``, ``health``. Pages: ``console``, ``login`` (people and their sessions; ``proxy`` if a proxy names them),
``docs_page``, ``rq`` (rq-dashboard). ``actions`` is what both the API and the console change, with its checks. ``app``
puts the parts together, and ``serving`` runs it. ``schemas`` and ``shapes`` describe it for OpenAPI. ``rendering``
writes JSON, ``pages`` HTML. The options and results are those of ``zsched.AsyncClient``; nothing here knows a rule
about schedules.
"""
