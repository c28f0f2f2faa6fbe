"""Exits with 0 if `lastbeat watch --metrics 9108` has seen the fleet of late. Standard library only."""

import os
import re
import sys
import time
import urllib.request

PATIENCE_S = 900
"""Longest time since a pass saw the fleet, beside three intervals: clocks differ, and a store may be away a while."""

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9108"
request = urllib.request.Request(f"http://{address}/metrics")
if token := os.environ.get("LASTBEAT_DASHBOARD_TOKEN"):
    request.add_header("Authorization", f"Bearer {token}")
try:
    with urllib.request.urlopen(request, timeout=5) as answer:
        text = answer.read(10_000_000).decode("utf-8", "replace")
except OSError as fault:
    sys.exit(f"no metrics: {fault}")


def value(name: str) -> float:
    found = re.search(rf"^{name}(?:\{{.*\}})? ([0-9.e+]+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


ago_s = time.time() - value("lastbeat_fleet_seen_timestamp_seconds")
if ago_s > PATIENCE_S + 3 * value("lastbeat_pass_interval_seconds"):
    sys.exit("no pass has seen the fleet of late")
