"""A restart loop like that of auto_restart, whose decisions are your own code.

    python ray_restart_loop.py http://10.0.0.7:8265 /shared/checkpoints "python train.py"

Unlike auto_restart it keeps no state: if this script dies, check what still runs before you start it again.
"""

import sys
import time

from lastbeat.launch.ray import (
    JobStatus,
    check_job_status,
    detect_stall,
    find_latest_checkpoint,
    get_current_step,
    stop_job,
    submit_job_with_resume,
)


def wait(head_pod: str, job: str, seconds: float) -> JobStatus:
    """How the job ended; one that stands still is stopped. UNKNOWN is no end: the cluster is asked again."""
    while True:
        status = check_job_status(head_pod, job)
        if status in {"SUCCEEDED", "FAILED"}:
            return status
        if detect_stall(head_pod, job, stagnation_threshold=5 * seconds, check_interval=seconds):
            print(f"{job} stands still at step {get_current_step(head_pod, job)}: it is stopped")
            # Returns when it has ended: two jobs must not write into one folder.
            stop_job(head_pod, job)
        time.sleep(seconds)


def main(head_pod: str, checkpoint_dir: str, entrypoint: str, seconds: float = 60) -> int:
    """``seconds`` is how often it is looked; a job that makes no step for five times as long stands still."""
    for attempt in range(1, 6):
        checkpoint = find_latest_checkpoint(checkpoint_dir)
        job = submit_job_with_resume(head_pod, checkpoint, {"entrypoint": entrypoint})
        print(f"attempt {attempt}: {job} from {checkpoint or 'the beginning'}", flush=True)
        status = wait(head_pod, job, seconds)
        print(f"attempt {attempt}: {status} at step {get_current_step(head_pod, job)}", flush=True)
        if status == "SUCCEEDED":
            return 0
        time.sleep(seconds)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], *map(float, sys.argv[4:5])))
