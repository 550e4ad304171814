"""A Flask application, served by Werkzeug, whose server is Python's http.server."""

import logging
import sys
from urllib.parse import quote

from flask import Flask, request

logging.disable()
app = Flask(__name__)


def ran(handler):
    return f"ran {handler}", {"Ran": handler, "Content-Type": "text/plain"}


@app.before_request
def admin():
    if request.host.partition(":")[0].lower() == "admin.example.com":
        return ran("admin")


@app.post("/login")
def login():
    return ran("login")


@app.get("/things")
def things():
    return ran("things")


@app.get("/token")
def token():
    return ran("token")


@app.get("/x")
def x():
    return ran("x")


@app.get("/items/<id>")
def items(id):
    return ran("items " + quote(id, safe=""))


@app.get("/keyed")
def keyed():
    return ran("keyed " + quote(request.headers.get("X-API-Key", ""), safe=""))


app.run(host=sys.argv[1], port=int(sys.argv[2]), threaded=True)
