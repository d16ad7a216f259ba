"""
Mutants of ``zsched/core``, ``zsched/daemon`` and ``zsched/lua``: one small change each, which a test must notice.

Reading order: ``change`` (what a mutant is), ``of_python`` and ``of_lua`` (which there are), ``belonging`` (which tests
are asked), ``copy_of_tree`` and ``trial`` (how), ``__main__`` (the command). ``equivalent.toml`` lists by hand the
mutants that no test can kill, each with the reason.

It is a tool of its own, since half of what decides here is Lua, and because of what the libraries for Python lack:
cosmic-ray removes no statements, swaps no min and max, and has one test command for all files; mutmut 3 has neither a
random sample nor tests in other processes than its own.
"""
