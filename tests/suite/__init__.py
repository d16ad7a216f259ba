"""
The quick parts of the suite: one collection (``forks``), warm starts of Python commands (``starts``, ``forkserver``),
and tiers of tests by their measured cost (``costs``).
"""
