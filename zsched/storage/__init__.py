"""Everything that talks to Redis: keys, scripts, the store, the lease, and RQ's job format."""
