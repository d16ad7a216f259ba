"""
The HTTP API: ``zsched web``, an ASGI application on the asynchronous client.

::

    request ─► access: token, role, limits ─► reading: JSON as options ─► a route ─► AsyncClient
                                                                             └─ problems: an error as RFC 9457 says

The routes: ``schedules`` (one), ``bulk`` and ``batch`` (many), ``occurrences``, ``runs``, ``changes`` and ``events``,
``health``. ``app`` puts the parts together, ``serving`` binds and runs it, ``schemas`` describes it for OpenAPI from
the table of options. The options and results are those of ``zsched.AsyncClient``; nothing here knows a rule about
schedules.
"""
