"""Calls that mypy judges. Nothing here runs: ``make lint`` is the test."""
