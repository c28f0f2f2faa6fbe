"""Do something else while a thread waits for a job of Ray's.

python ray_background.py http://10.0.0.7:8265 JOB
"""

import sys
import threading
import time

from lastbeat.launch.ray import MonitorResult, get_progress, monitor_job


def main(head_pod: str, job: str, seconds: float = 30) -> int:
    """``seconds`` is how often it is looked."""
    results: list[MonitorResult] = []
    thread = threading.Thread(
        target=lambda: results.append(monitor_job(head_pod, job, check_interval=seconds)), daemon=True
    )
    thread.start()
    while thread.is_alive():
        progress = get_progress(head_pod, job)
        print(f"step {progress.step} of {progress.total_steps}, loss {progress.loss}", flush=True)
        time.sleep(seconds)
    if not results:
        return 1
    print(f"{results[0].status} at step {results[0]['final_step']} after {results[0].duration:.0f} s")
    return 0 if results[0].status == "SUCCEEDED" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:4])))
