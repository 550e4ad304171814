"""Work whose cost is known afterwards, in four threads, under a budget of 1,000 units. See run.sh."""

import sys
from concurrent.futures import ThreadPoolExecutor

from client import Stint

limits = Stint(sys.argv[1], budget=5)  # in a service that answers people, 0.05


def work(n):
    decision = limits.take(subject="user:42", policy="completions", cost=100, hold_seconds=60)
    if "failed" in decision:
        return "failed: " + decision["failed"]
    if not decision["allowed"]:
        return "denied"
    limits.settle(decision, budget=5, cost=50)  # it was estimated at 100
    return "allowed"


with ThreadPoolExecutor(4) as pool:
    results = list(pool.map(work, range(40)))
for result in sorted(set(results)):
    print(result, results.count(result))

# Without a server, requests are allowed, or denied if you prefer that. They wait no longer than the budget.
nowhere = Stint("127.0.0.1:1", budget=0.05, allow_on_failure=False)
print("without a server: allowed" if nowhere.take(subject="user:42", policy="completions")["allowed"] else
      "without a server: denied")
