"""
What ``zsched recover`` does: ``archives`` finds and reads the file, ``recovery`` says whether a merge may be and runs
it, ``difference`` and ``outcome`` tell what is missing and what came of it, ``progress`` how far it is.
"""
