"""
The compatibility matrix: the suite is run with each available server, RQ and Python.
``docs/reference/compatibility.md`` shows the results.

Reading order: ``servers`` (the servers, and how they are installed), ``runs`` (a run of the suite and its stored
result), ``differences`` (questions that servers answer differently), ``page`` (the page), ``__main__`` (the command,
which is ``make matrix``).

``results.json`` holds the last run of each combination. A run is never guessed: the page has an empty cell for it.
"""
