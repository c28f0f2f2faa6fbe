"""Whether what was reported last is also the last that was said."""

from typing import Final

from lastbeat.model.pattern import Pattern

# What is printed behind an end and does not show that the program lives: rest of messages, native frames, launchers,
# schedulers and tools that clean up.
_REST: Final = Pattern(
    r"\s|$|[-=*~^_#]{3,}|frame #\d|@ {1,20}0x|\*\*\* |Exception raised from|C\+\+ CapturedTraceback|Last error|"
    r"CUDA kernel errors might|For debugging consider|Compile with |Device-side assert|Set TORCH_LOGS|"
    r"You can suppress|Search for `|nccl\w{1,30}:|tensor\(|"
    r"\[?[IWEF]\d{3,4} \d\d:\d\d:\d\d\S{0,12} .{0,80}(?:torch/distributed|ProcessGroup|socket\.cpp|TCPStore|Utils\.cpp|"
    r"init\.cpp|Module\.cpp|CudaIPC|coordination|distributed_runtime)|"
    r"(?:srun|sbatch|salloc|slurmstepd|mpirun|mpiexec|prterun|torchrun|systemd\[\d{1,8}\]|wandb|make|time|real|user|"
    r"sys)\b[: \t]|"
    r"\S{1,80}:\d{1,8}:\d{1,8} \[\d{1,3}\] NCCL |(?:INFO|WARNING|ERROR):torch\.distributed|"
    r"/\S{1,200}\.py:\d{1,6}: \w{1,40}Warning|Sending process|Killing subprocess|\+ |##\[|Failures:|Root Cause|"
    r"\[\d{1,5}\]:|<N|File \"|Extension modules:"
)


def is_rest(text: str) -> bool:
    """Whether a line without its prefixes may stand behind an end: nobody who goes on says such things."""
    return _REST.match(text) is not None
