"""Lint rules of our own, for what ruff and mypy do not see: ``make lint`` runs them over each file once."""
