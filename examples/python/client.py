"""A client of stint for Python, with the standard library only: copy it into your program.

    limits = Stint("127.0.0.1:8080")
    decision = limits.take(subject="user:42", policy="completions", cost=100, hold_seconds=60)
    if not decision["allowed"]:
        ...  # decision["retry_after_seconds"]; None: waiting does not help
    limits.settle(decision, cost=73)

Run examples/python/run.sh to see it work.
"""

import http.client
import json
import queue
import time
import uuid


class Refused(Exception):
    """An error response from the server."""

    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status = status


class Stint:
    """A client of a stint server. It is safe for several threads: connections are kept and shared.

    A decision takes no longer than the budget, in seconds. Without an answer in time, the request
    is allowed, with the member "failed"; with allow_on_failure=False it is denied. An invalid
    request raises Refused.
    """

    def __init__(self, address, token=None, budget=0.05, allow_on_failure=True, connections=16):
        self.address, self.budget, self.allow_on_failure = address, budget, allow_on_failure
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = "Bearer " + token
        self.idle = queue.LifoQueue(connections)

    def take(self, **request):
        """Charges a request if there is room, and returns the decision."""
        request.setdefault("id", str(uuid.uuid4()))  # a repeat is charged once
        try:
            return self._post("/v1/take?status=200", request, self.budget)
        except (OSError, http.client.HTTPException, Refused) as err:
            if isinstance(err, Refused) and err.status < 500:
                raise
            return {"allowed": self.allow_on_failure, "failed": str(err), "retry_after_seconds": 1, "charge": ""}

    def settle(self, decision, budget=1.0, **costs):
        """Replaces the estimate of a decision with the true cost. A repeat changes nothing."""
        if decision["charge"]:
            self._post("/v1/settle", {"charge": decision["charge"], **costs}, budget)

    def _post(self, path, body, budget):
        deadline = time.monotonic() + budget
        while True:
            kept = True
            try:
                connection = self.idle.get_nowait()
            except queue.Empty:
                connection, kept = http.client.HTTPConnection(self.address, timeout=budget), False
            try:
                status, answer = self._send(connection, path, json.dumps(body), deadline)
            except (OSError, http.client.HTTPException) as err:
                connection.close()
                # The server closes connections that are idle for two minutes. Requests have an id, so a request
                # that was charged but not answered is not charged again.
                if kept and not isinstance(err, TimeoutError):
                    continue
                raise
            try:
                self.idle.put_nowait(connection)
            except queue.Full:
                connection.close()
            if status != 200:
                raise Refused(status, answer.decode(errors="replace"))
            return json.loads(answer)

    def _send(self, connection, path, body, deadline):
        def left():
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                raise TimeoutError("no answer in time")
            return seconds

        connection.timeout = left()
        if connection.sock:
            connection.sock.settimeout(connection.timeout)
        connection.request("POST", path, body, self.headers)
        connection.sock.settimeout(left())
        response = connection.getresponse()
        return response.status, response.read()
