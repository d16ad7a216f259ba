"""The benchmark: zsched beside the bare Redis commands and other schedulers, on one private server."""

from __future__ import annotations


def main(args: list[str]) -> int:
    """Run the benchmark with the arguments of its command line; returns the exit code."""
    from zsched.bench import program  # here: the benchmark's child processes need none of it

    return program.main(args)
