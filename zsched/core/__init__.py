"""The pure part: values, time, decisions. No Redis, no RQ, no IO; only ``clock`` reads a clock."""
