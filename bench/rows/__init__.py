"""A module per row, or per pair of rows that differ in persistence; each returns its ``Result``."""
