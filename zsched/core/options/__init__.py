"""The options of a schedule: their table, the forms of their values, and the definition that a call makes of them."""
