"""Recovery: what a Redis that lost data lacks, and what an audit finds."""
