"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """An order of a customer: open, then paid or cancelled."""

    customer = models.CharField(max_length=100)
    state = models.CharField(max_length=10, default="open")
