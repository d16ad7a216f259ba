"""Other schedulers, each driven through its own public interface, as its documentation shows."""
