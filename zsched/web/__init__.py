"""
The HTTP API: ``zsched web``, an ASGI application on the asynchronous client.

::

    request ─► access: token, role, limits ─► reading: JSON as options ─► schedules, runs, namespace ─► AsyncClient
                                                                             └─ problems: an error as RFC 9457 says

``app`` puts the parts together, ``serving`` binds and runs it, ``schemas`` describes it for OpenAPI from the table of
options. The options and results are those of ``zsched.AsyncClient``; nothing here knows a rule about schedules.
"""
