"""NeMo-Run: plugins by the names of NeMo's, for scripts. The task then starts with ``lastbeat exec``.

task = run.Script(inline="torchrun --nproc-per-node 8 train.py")
run.run(task, executor, plugins=[FaultTolerancePlugin(run_id="my-run"), PreemptionPlugin()])
"""

import shlex
from dataclasses import dataclass
from typing import Final

import nemo_run as run

_EXEC: Final = "lastbeat exec "


@dataclass(kw_only=True)
class FaultTolerancePlugin(run.Plugin):
    """Restarts a script that hangs or fails within its job, and lets NeMo-Run submit a failed job again.

    The limits are in seconds: before the first step, where 1800 is the least, and between two steps.
    """

    run_id: str = ""
    """The run; made from the job if empty."""
    num_in_job_restarts: int = 3
    num_job_retries_on_failure: int = 2
    initial_rank_heartbeat_timeout: int = 1800
    rank_heartbeat_timeout: int = 300

    def setup(self, task: run.Script, executor: run.Executor) -> None:
        """Wrap the task. Raises NotImplementedError if it is no script, or its executor has a launcher."""
        options = ["--run-id", self.run_id] if self.run_id else []
        limits = f"step:{self.rank_heartbeat_timeout},out_of_section:{self.initial_rank_heartbeat_timeout}"
        options += ["--max-restarts", str(self.num_in_job_restarts), "--section-timeouts", limits]
        _wrap(task, executor, options)
        executor.retries = self.num_job_retries_on_failure


@dataclass(kw_only=True)
class PreemptionPlugin(run.Plugin):
    """Sends a script SIGTERM ``preempt_time`` seconds before its Slurm job ends, so that it can save."""

    preempt_time: int = 60

    def setup(self, task: run.Script, executor: run.Executor) -> None:
        """As :meth:`FaultTolerancePlugin.setup`, before or after it."""
        # Without a signal of Slurm's: a second SIGTERM would end the script at once.
        _wrap(task, executor, ["--time-margin", str(self.preempt_time)])


def _wrap(task: run.Script, executor: run.Executor, options: list[str]) -> None:
    if not isinstance(task, run.Script) or executor.launcher is not None:
        raise NotImplementedError(
            "lastbeat wraps a run.Script whose executor has no launcher: let the script start torchrun, as in "
            "run.Script(inline='torchrun train.py'); the trainer of a recipe takes LastbeatCallback"
        )
    if task.inline:
        if not task.inline.startswith(_EXEC):
            task.inline = f"{_EXEC}-- {shlex.join([task.entrypoint, '-c', task.inline])}"
            task.entrypoint = "bash"
        task.inline = f"{_EXEC}{shlex.join(options)} {task.inline.removeprefix(_EXEC)}"
        return
    if task.entrypoint != "lastbeat":
        command = [task.entrypoint, *(["-m"] if task.m else []), task.path, *task.args]
        task.entrypoint, task.path, task.m, task.args = "lastbeat", "exec", False, ["--", *command]
    task.args = [*options, *task.args]
