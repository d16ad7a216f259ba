"""Reading an archive beside its writer."""


class History:
    """To come."""
