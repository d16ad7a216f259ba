"""The settings of Django that the example needs."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).parent
SECRET_KEY = os.environ.get("SECRET_KEY", "only for this example")
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "testserver"]
INSTALLED_APPS = ["orders"]
ROOT_URLCONF = "urls"
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DB", BASE_DIR / "shop.sqlite3")}
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
ZSCHED_REDIS_URL = os.environ.get("ZSCHED_REDIS_URL", "redis://localhost:6379/0")
