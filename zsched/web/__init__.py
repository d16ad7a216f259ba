"""
The HTTP API and the pages of ``zsched web``, an ASGI application on the asynchronous client.

::

    serving ─► middleware ─► calls, access: who asks, and their rights ─► a route ─► AsyncClient
      limits     counts, a time limit                   reading: JSON as options ─┘
                                                        answers: JSON, pages, errors as RFC 9457 says

Callers are named by ``accounts``, which stand in a file (``accounts_file``), or by a proxy. Routes of the API:
``schedules`` (one), ``bulk`` (many), ``runs`` (occurrences, too), ``namespace`` (its state and calendars) and
``events`` (its log). Pages: ``console``, ``login`` (people and their sessions), ``rq`` (rq-dashboard). ``actions`` is
what both the API and the console change, with its checks. ``app`` puts the parts together, and ``serving`` runs it.
``schemas`` describes it for OpenAPI. The options and results are those of ``zsched.AsyncClient``; nothing here knows a
rule about schedules.
"""
