"""A worker of RQ that has Django ready before its first task."""

import os

import django

from zsched.rq import Worker as RecordingWorker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()


class Worker(RecordingWorker):
    """zsched's worker, which records failed attempts."""
