"""
People sign up, and get a mail ten minutes later:

    pip install zsched flask
    flask --app service run
    curl -X POST localhost:5000/users/ann
"""

import os
from datetime import timedelta

from flask import Flask, jsonify
from flask.typing import ResponseReturnValue
from tasks import welcome

from zsched import Client, InvalidSchedule, RedisRefused, RedisUnavailable


def create_app(delay: timedelta = timedelta(minutes=10)) -> Flask:
    """Make the service. Its client may be used by all threads, and connects at its first call."""
    app = Flask(__name__)
    client = Client.from_url(os.environ.get("ZSCHED_REDIS_URL", "redis://localhost:6379/0"))

    @app.post("/users/<user>")
    def sign_up(user: str) -> ResponseReturnValue:
        made = welcome.schedule(client, user=user, after=delay, if_exists="keep")  # a second click changes nothing
        return jsonify(outcome=made.outcome, mail_at=made.next_at and made.next_at.isoformat())

    @app.delete("/users/<user>")
    def leave(user: str) -> ResponseReturnValue:
        return jsonify(outcome=client.cancel(welcome.id_of(user=user)))

    @app.errorhandler(InvalidSchedule)
    def refuse(error: InvalidSchedule) -> ResponseReturnValue:
        return jsonify(detail=str(error)), 422

    @app.errorhandler(RedisRefused)
    @app.errorhandler(RedisUnavailable)
    def wait(error: RedisRefused | RedisUnavailable) -> ResponseReturnValue:
        return jsonify(detail=str(error)), 503, {"Retry-After": "2"}

    return app
