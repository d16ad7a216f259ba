"""Orders, over HTTP."""

from datetime import timedelta

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from orders.models import Order
from orders.scheduling import client
from orders.tasks import cancel_unpaid

DAY = timedelta(days=1)


@csrf_exempt
@require_POST
@transaction.atomic
def place(request: HttpRequest, customer: str) -> JsonResponse:
    """
    Save an order. It is cancelled if it is not paid within a day.

    ``on_commit``: an order that is rolled back has no schedule, and no task runs before the order can be read. If the
    process dies between the two, the order stays open: ``manage.py schedules`` finds such orders.
    """
    order = Order.objects.create(customer=customer)
    transaction.on_commit(lambda: cancel_unpaid.schedule(client(), number=order.pk, after=DAY))
    if customer == "nobody":
        raise ValueError("nobody cannot order")
    return JsonResponse({"number": order.pk})


@csrf_exempt
@require_POST
@transaction.atomic
def pay(request: HttpRequest, number: int) -> JsonResponse:
    """Note that an order is paid; its schedule is not needed any more."""
    Order.objects.filter(pk=number).update(state="paid")
    transaction.on_commit(lambda: client().cancel(cancel_unpaid.id_of(number=number)))
    return JsonResponse({"number": number, "state": "paid"})
