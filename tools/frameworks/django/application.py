"""A Django application, served by Gunicorn, behind a proxy that it trusts. Some routes ignore case."""

import logging
from urllib.parse import quote

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path, re_path
from django.views.decorators.http import require_POST, require_safe

logging.disable()
settings.configure(
    ALLOWED_HOSTS=["*"],
    LOGGING_CONFIG=None,
    MIDDLEWARE=[f"{__name__}.admin_first", "django.middleware.common.CommonMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="of a test",
    USE_X_FORWARDED_HOST=True,
)
django.setup()


def ran(handler):
    return HttpResponse(f"ran {handler}", headers={"Ran": handler}, content_type="text/plain")


def admin_first(get_response):
    def middleware(request):
        if request.get_host().partition(":")[0].lower() == "admin.example.com":
            return ran("admin")
        return get_response(request)

    return middleware


urlpatterns = [
    path("login", require_POST(lambda request: ran("login"))),
    re_path("^(?i:things)$", require_safe(lambda request: ran("things"))),
    re_path("^(?i:token)$", require_safe(lambda request: ran("token"))),
    path("x", require_safe(lambda request: ran("x"))),
    path("items/<id>", require_safe(lambda request, id: ran("items " + quote(id, safe="")))),
    path("keyed", require_safe(lambda request: ran("keyed " + quote(request.headers.get("X-API-Key", ""), safe="")))),
]

application = get_wsgi_application()
