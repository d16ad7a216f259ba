"""What workers run: ``rq worker --worker-class orders.worker.Worker orders``. Tasks look into the database first."""

import zsched


@zsched.task(queue="orders", id="unpaid-{number}")
def cancel_unpaid(number: int) -> None:
    """Cancel an order that is still open."""
    from orders.models import Order  # a worker has Django ready by now; who imports this may not

    changed = Order.objects.filter(pk=number, state="open").update(state="cancelled")
    print(f"order {number}:", "cancelled" if changed else "paid, or gone")


@zsched.task(queue="orders")
def report() -> None:
    """Count the open orders."""
    from orders.models import Order

    print(Order.objects.filter(state="open").count(), "open")
