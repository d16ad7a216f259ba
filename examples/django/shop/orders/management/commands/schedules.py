"""``manage.py schedules``: put the recurring schedules, and those of open orders that have none."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand

from orders.models import Order
from orders.scheduling import client
from orders.tasks import cancel_unpaid, report


class Command(BaseCommand):
    """Run it with each deployment. It may run twice: each schedule has an id."""

    help = "Put the recurring schedules, and those of open orders that have none."

    def handle(self, *args: Any, **options: Any) -> None:
        """Put them, and say what changed."""
        made = report.schedule(client(), id="report", cron="0 9 * * 1-5", tz="Europe/Vienna")
        self.stdout.write(f"report: {made.outcome}")
        open_orders = Order.objects.filter(state="open").values_list("pk", flat=True)
        many = client().schedule_many(
            {"func": cancel_unpaid, "kwargs": {"number": number}, "after": timedelta(days=1), "if_exists": "keep"}
            for number in open_orders
        )
        self.stdout.write(f"open orders: {many.created} had no schedule, {many.kept} had one")
