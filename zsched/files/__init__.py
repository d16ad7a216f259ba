"""
Schedules as a file: read a file, compare it with Redis, put the difference, and write a file.

A file lists recurring schedules and owns them: the ``owner`` of each is the file's, and a schedule of
another owner is never touched. The whole file is checked before anything is written, and every mistake is reported with
its line.

Reading order: ``reading`` (from text to entries), ``checking`` (the valid keys and options, and how all mistakes are
found in one reading), ``applying`` (the plan, its execution, and the differences for people), ``toml`` (lines of keys,
and values as text) and ``writing`` (from Redis to a file).
"""
