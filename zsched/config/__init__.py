"""
Settings: defaults < TOML file < environment < flags. Each key is checked, each password is hidden.

``settings`` has the keys and reads them, ``parsing`` checks single values and user-named tables, ``urls`` parses URLs
of Redis, and reads and hides passwords, ``bounds`` has limits that others check, too.
"""
