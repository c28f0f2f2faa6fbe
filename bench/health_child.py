"""One process that samples its node again and again; prints what that took as JSON."""

import json
import sys
import time

from lastbeat.training.sdk.run import Run


def main(samples: int) -> None:
    run = Run("bench", None, 0)
    began = time.perf_counter()
    from lastbeat.training.node.sampler import (  # noqa: PLC0415 - what is measured
        HISTORY_EACH_S,
        HISTORY_MOST,
        NodeSampler,
    )

    imported = time.perf_counter() - began
    sampler = NodeSampler(0.0, ["."])
    # The first one loads the driver's library, and has nothing to compare its counters with.
    sampler.sample(run)
    walls = []
    cpu = time.process_time()
    for _ in range(samples):
        at = time.perf_counter()
        told = sampler.sample(run)
        walls.append(time.perf_counter() - at)
    cpu = time.process_time() - cpu
    series = (told or {}).get("history", {}).get("series", {})
    full = {
        **(told or {}),
        "history": {"from": 0, "each_s": HISTORY_EACH_S, "series": {name: [0.123] * HISTORY_MOST for name in series}},
    }
    print(json.dumps({"import_s": imported, "wall_s": walls, "cpu_s": cpu, "bytes": len(json.dumps(full))}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
