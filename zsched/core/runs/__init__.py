"""A run: its id, its job in RQ, its attempts, its signature, and its form for people."""
