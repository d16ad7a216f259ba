"""Occurrences: when they are, what becomes of each, and how changes, searches and counts tell it."""
