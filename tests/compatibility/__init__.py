"""
What zsched runs with: the suite with each server, RQ and Python that can be had, and ``docs/reference/compatibility.md`` of it.

Reading order: ``servers`` (which there are, and how they come here), ``runs`` (a run of the suite, and what is kept of
it), ``differences`` (what each server answers differently), ``page`` (the page), ``__main__`` (the command, which is
``make matrix``).

``results.json`` holds the last run of each combination. A run is never guessed: the page has an empty cell for it.
"""
