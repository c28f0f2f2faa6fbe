"""Train to the end: submit, restart as long as that helps, and say how everything is.

    python ray_pipeline.py http://10.0.0.7:8265 /shared/checkpoints "python train.py"

The first argument may be the pod of Ray's head, too.
"""

import sys

from lastbeat.launch.ray import (
    auto_restart,
    check_efa_utilization,
    check_job_status,
    find_latest_checkpoint,
    print_training_health,
    submit_job_with_resume,
    verify_ray_resources,
)


def main(head_pod: str, checkpoint_dir: str, entrypoint: str, seconds: float = 60) -> int:
    """Everything takes ``seconds``, or five times as long: the pace of a large training, or of a small one."""
    resources = verify_ray_resources(head_pod)
    print(f"Ray has {resources.gpus_available:g} GPUs, {resources['gpus_used']:g} of them given out")

    checkpoint = find_latest_checkpoint(checkpoint_dir)
    job = submit_job_with_resume(head_pod, checkpoint, {"entrypoint": entrypoint})
    print(f"job {job} begins from {checkpoint or 'the beginning'}: {check_job_status(head_pod, job)}")

    result = auto_restart(
        head_pod,
        job,
        checkpoint_dir,
        max_retries=5,
        retry_delay=seconds,
        stagnation_threshold=5 * seconds,
        check_interval=seconds / 2,
    )
    print(f"success: {result.success} at step {result['final_step']} after {result.total_retries} restarts")
    print(f"why: {result.reason}")

    print(f"EFA: {check_efa_utilization(head_pod).transport}")
    print_training_health(head_pod, checkpoint_dir)
    return 0 if result.success else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], *map(float, sys.argv[4:5])))
