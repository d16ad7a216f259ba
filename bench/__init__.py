"""
The benchmark: zsched beside the bare Redis commands and other schedulers, on one private server.

It belongs to the checkout and is not installed: ``make bench``, or ``python -m bench`` in the checkout.
"""
