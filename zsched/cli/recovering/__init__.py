"""
The command ``zsched archive recover``: ``archives`` finds and reads the file, ``command`` decides whether a recovery
is allowed and drives it, ``report`` lists the missing data and the outcome.
"""
