"""The pure part: values, times, decisions. No Redis, no RQ, no IO; only ``clock`` reads a clock."""
