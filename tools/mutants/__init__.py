"""
Mutants of ``zsched/core``, ``zsched/daemon`` and ``zsched/lua``: one small change each, which a test must notice.

Reading order: ``change`` (a mutant), ``of_python`` and ``of_lua`` (the mutants of a file), ``belonging`` (the tests of
a file), ``copy_of_tree`` and ``trial`` (the execution), ``__main__`` (the command). ``equivalent.toml`` lists by hand
the mutants that no test can kill, each with the reason.

It is a separate tool, since half of the logic here is Lua, and because of gaps in the libraries for Python: cosmic-ray
removes no statements, swaps no min and max, and has one test command for all files; mutmut 3 has neither a random
sample nor tests in other processes than its own.
"""
