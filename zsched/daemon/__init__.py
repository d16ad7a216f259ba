"""The process: leadership, the tick, waking and sleeping, signals."""
