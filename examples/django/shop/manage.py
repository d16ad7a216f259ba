"""
A shop: an order that is placed gets a mail, and one that is not paid within a day is cancelled.

    pip install zsched django
    python manage.py migrate --run-syncdb
    python manage.py schedules              # once per deployment: the recurring schedules
    python manage.py runserver
    curl -X POST localhost:8000/orders/ann
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
    execute_from_command_line(sys.argv)
