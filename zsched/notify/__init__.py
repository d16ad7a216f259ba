"""
The notifier's messages and sinks: what people are told without asking, and where.

``message`` makes messages of changes, ``sinks`` sends them: a class per kind of sink. Two kinds also keep a monitor per
schedule, at Sentry or healthchecks. ``daemon.notifier`` decides when, and remembers what was told.
"""
