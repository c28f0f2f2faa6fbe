"""Functions for scripts of people who train on Ray, by the pod of its head or by its dashboard's address.

    from lastbeat.launch.ray import auto_restart
    result = auto_restart("http://10.0.0.7:8265", "train", "s3://bucket/checkpoints")
    print(result.success, result["final_step"], result.reason)

``head_pod`` is a pod's name, which is asked by ``kubectl exec``, in ``namespace``; or an address, ``http://HOST:8265``,
which is asked by the REST API of Ray's dashboard. Results are frozen dataclasses that are mappings, too. All that is
raised is a :class:`LaunchError`, which says what to do.
"""

from lastbeat.launch.auto_restart import auto_restart
from lastbeat.launch.errors import (
    JobNotFoundError,
    LaunchError,
    NotReachedError,
    NotSetUpError,
    NotSubmittedError,
    UncertainError,
)
from lastbeat.launch.health import (
    check_efa_utilization,
    check_gpu_utilization,
    find_latest_checkpoint,
    get_training_health,
    print_training_health,
    verify_ray_resources,
)
from lastbeat.launch.jobs import (
    check_job_status,
    detect_stall,
    get_current_step,
    get_progress,
    monitor_job,
    stop_job,
    submit_job_with_resume,
)
from lastbeat.launch.results import JobProgress, JobStatus, MonitorResult, RestartResult
from lastbeat.model.training_health import (
    CheckpointHealth,
    EfaUtilization,
    GpuProcess,
    GpuUtilization,
    RayResources,
    TrainingHealth,
)

__all__ = [
    "CheckpointHealth",
    "EfaUtilization",
    "GpuProcess",
    "GpuUtilization",
    "JobNotFoundError",
    "JobProgress",
    "JobStatus",
    "LaunchError",
    "MonitorResult",
    "NotReachedError",
    "NotSetUpError",
    "NotSubmittedError",
    "RayResources",
    "RestartResult",
    "TrainingHealth",
    "UncertainError",
    "auto_restart",
    "check_efa_utilization",
    "check_gpu_utilization",
    "check_job_status",
    "detect_stall",
    "find_latest_checkpoint",
    "get_current_step",
    "get_progress",
    "get_training_health",
    "monitor_job",
    "print_training_health",
    "stop_job",
    "submit_job_with_resume",
    "verify_ray_resources",
]
