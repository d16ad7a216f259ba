"""
Mutants of ``zsched/core``, ``daemon``, ``lua`` and ``storage``: one small change each, which a test must notice.

Reading order: ``change`` (a mutant), ``of_python`` and ``of_lua`` (the mutants of a file); ``sites`` and ``hits`` (what
is executed), ``covered`` (the recording of that), ``tree`` (a copy of the project), ``runner`` (a process of pytest
that forks for each mutant) with ``swap`` (puts a mutant into a fork), ``crew`` (the runners); ``witnesses`` (the tests
of a mutant, in order), ``trial`` (the judgement), ``ledger`` (the verdicts), ``__main__`` (the command).
``equivalent.toml`` lists by hand the mutants that no test can kill, each with the reason.

It is a separate tool, since half of the logic here is Lua, and because of gaps in the libraries for Python: cosmic-ray
removes no statements, swaps no min and max, and has one test command for all files; mutmut 3 has neither a random
sample nor tests in other processes than its own, and starts pytest anew for each mutant's file.
"""
