"""``/api/docs``: the API in Swagger UI, whose files come from this server: no other one sees who looks at it."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, FastAPI
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)

_FILES: Final = "/static/swagger"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)  # Swagger UI sets styles of elements
_PAGE: Final = f"""<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>HTTP API · zsched</title>
  <link rel="stylesheet" href="{_FILES}/swagger-ui.css">
</head>
<body>
  <div id="swagger-ui"></div>
  <script src="{_FILES}/swagger-ui-bundle.js"></script>
  <script src="/static/docs.js"></script>
</body>
</html>
"""


@router.get("/api/docs")
async def docs() -> Response:
    """Show the OpenAPI document."""
    return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"})


def add_docs(app: FastAPI) -> None:
    """Add the page and its files to *app*, before ``/static``."""
    app.include_router(router)
    app.mount(_FILES, StaticFiles(packages=[("fastapi_offline", "static")]))
