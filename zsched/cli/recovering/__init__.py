"""
The command ``zsched recover``: ``archives`` finds and reads the file, ``command`` says whether a recovery may be and
drives it, ``report`` tells what is missing and what came of it.
"""
