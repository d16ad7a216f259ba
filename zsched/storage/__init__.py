"""All access to Redis: keys, scripts, the store, the lease, and RQ's job format."""
