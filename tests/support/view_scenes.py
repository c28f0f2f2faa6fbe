"""Fleets for people to look at: every status with a story behind it, a hostile one, and a large one.

``at`` is a directory, a store, or a :class:`support.view_places.Place`; ``now`` is the time there. Records, fleet
memory and mark come from real passes.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from lastbeat.stores.port import Store
from lastbeat.training.sdk.stacks import dump_stacks
from lastbeat.training.sdk.values import error_text
from support.channel import ListChannel, down
from support.memory import MemoryStore
from support.view_hostile import hostile
from support.view_many import many
from support.view_places import Place, place_of
from support.view_world import HOUR, MINUTE, POLICY, SdkWorld, Training, sweep

__all__ = ["STATUSES", "UNSEEN", "every_status", "found_late", "hostile", "many", "together"]

HEALTHY = "llama3-8b-pretrain"
STALLED = "mistral-7b-sft"
OOM = "qwen2-72b-rlhf"
BY_ERROR = "whisper-small-ft"
HANGS = "gpt-neox-20b"
DONE = "vit-l-imagenet"
FLAPS = "t5-xxl-spot"
GONE = "falcon-40b-spot"
LAGS = "mixtral-8x7b-ddp64"
NAN = "sdxl-unet-finetune"
LOG_ONLY = "cron-eval-nightly"
RESTARTED = "phi-3-mini-retry"
NEW = "bert-base-new"
SILENT = "gemma-2b-nobody-watches"
DAMAGED = "olmo-1b-damaged"

STATUSES = {
    HEALTHY: "RUNNING",
    STALLED: "RUNNING (WARNING)",
    OOM: "FAILED",
    BY_ERROR: "FAILED",
    HANGS: "TIMED_OUT",
    DONE: "SUCCEEDED",
    FLAPS: "RUNNING",
    GONE: "TIMED_OUT",
    LAGS: "RUNNING",
    NAN: "RUNNING (WARNING)",
    LOG_ONLY: "RUNNING",
    RESTARTED: "RUNNING",
}
"""Runs of :func:`every_status` that passes have recorded, and as what."""
UNSEEN = (NEW, SILENT, DAMAGED)
"""Runs of it that no pass has judged as they are now: one has no record, one fell silent and is recorded as RUNNING,
and of one record and metadata.json are damaged."""


def every_status(at: Path | Store | Place, now: datetime) -> None:
    """A day of a fleet in which each status and each kind of evidence is shown by a run of its own."""
    world = SdkWorld(now)
    for begin in (_healthy, _stalled, _oom, _by_error, _hangs, _done, _flaps, _gone, _lags, _nan, _log_only,
                  _restarted, _old):  # fmt: skip
        begin(world)
    world.sns_is_down(-55 * MINUTE)
    world.passes((-26 * HOUR, -HOUR, 20 * MINUTE), (-HOUR, -0.5 * MINUTE, 4 * MINUTE), (-20.0, -20.0, 1.0))
    world.play()
    place = place_of(at)
    world.lay(place)
    if not isinstance(place.store, MemoryStore):
        # Where files have other versions now, a pass over the place itself remembers them.
        waiting = ListChannel(world.sns.identity)
        waiting.fault = down
        sweep(place, [ListChannel(world.slack.identity), waiting])
    _unseen(place, now)


SWEPT = "qwen2.5-14b-instruct-sft-lr{}-wd0.1-seed{}"
STANDS = SWEPT.format("2e-5", 1)
"""A run of :func:`found_late` that has stood still for an hour."""
STEADY = (SWEPT.format("1e-5", 1), SWEPT.format("2e-5", 2))
"""Runs of it that get on."""
YESTERDAY = "llama3-8b-failed-last-night"
"""A run of it that failed ten hours ago."""


def found_late(at: Path | Store | Place, now: datetime) -> None:
    """Runs of a sweep that have trained for hours, and that watchers found 20 minutes ago; no stall limit is set."""
    world = SdkWorld(now)
    world.policy = replace(POLICY, stall_s=None)
    for run_id in (STANDS, *STEADY):
        run = world.training(run_id, total=90_000, step_s=1.2, gpus=8).beats(-9 * HOUR, -10.0)
        if run_id == STANDS:
            world.at(-HOUR, partial(setattr, run, "still", True))
    failed = world.training(YESTERDAY).beats(-12 * HOUR, -10 * HOUR)
    world.at(-10 * HOUR + 5, lambda: failed.error("RuntimeError: boom"))
    world.passes((-20 * MINUTE, -30.0, 2 * MINUTE))
    world.play_into(at)


TOGETHER = tuple(f"sweep-lr{rate}-wd{decay}-seed{seed}" for rate in ("1e-4", "2e-4", "3e-4", "5e-4", "1e-3")
                 for decay in ("0.05", "0.1", "0.2") for seed in (1, 2, 3))[:35]  # fmt: skip
"""Runs of :func:`together` that fall silent together."""
OUT_OF_MEMORY = tuple(f"llama3-8b-bs{size}-a100" for size in (24, 32, 48, 64))
"""Runs of it that run out of memory within a minute."""
ALONE = ("clip-vit-l-pretrain", "mamba-130m-ablation", "t5-base-distill", "wav2vec2-ft-cv17")
"""Runs of it that live."""


def together(at: Path | Store | Place, now: datetime) -> None:
    """A partition of a cluster is gone, and with it 35 runs; four others run out of memory, and four go on."""
    world = SdkWorld(now)
    for run_id in TOGETHER:
        world.training(run_id, total=40_000, step_s=1.3).beats(-2 * HOUR, -24 * MINUTE, 4 * MINUTE)
    for run_id in OUT_OF_MEMORY:
        _out_of_memory(world, world.training(run_id, total=9_000, step_s=2.2).beats(-2 * HOUR, -55 * MINUTE))
    for run_id in ALONE:
        world.training(run_id, total=25_000, step_s=1.1, tokens=65_536, gpus=1).beats(-4 * HOUR, -10.0)
    world.passes((-3 * HOUR, -HOUR, 30 * MINUTE), (-HOUR, -20.0, 5 * MINUTE))
    world.play_into(at)


def _out_of_memory(world: SdkWorld, run: Training) -> None:
    free = round(run.chance.uniform(0.2, 0.9), 2)
    said = (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of "
        f"39.39 GiB of which {free} GiB is free."
    )
    world.at(-55 * MINUTE + 3, lambda: run.error(f"{said}\n"))


def _unseen(place: Place, now: datetime) -> None:
    """What passes have not seen as it is now."""
    alone = SdkWorld(now, seed=8)
    alone.training(NEW, total=3_000).beats(-11 * MINUTE, -20.0)
    alone.play().lay(place, [NEW])
    before = SdkWorld(now, seed=9)
    before.training(SILENT, total=50_000, step_s=2.0).beats(-9 * HOUR, -3 * HOUR)
    damaged = before.training(DAMAGED, total=60_000).beats(-6 * HOUR, -40.0)
    before.passes((-9 * HOUR, -3 * HOUR, 10 * MINUTE))
    before.at(-30.0, lambda: damaged.put("metadata.json", '{"run_id": "olmo-1b-damaged", "phase": "tra'))
    before.at(-30.0, lambda: damaged.put("_watchdog.json", '{"schema": 1, "status": "RUNN'))
    before.play().lay(place, [SILENT, DAMAGED])


def _healthy(world: SdkWorld) -> None:
    run = world.training(
        HEALTHY, total=120_000, step_s=0.9, tokens=131_072, gpus=8, ranks=8, host="i-0f3e2d1c0b9a87654"
    )
    run.beats(-22 * HOUR, -15.0)
    for when_s in (-16 * HOUR, -10 * HOUR, -4 * HOUR, -50 * MINUTE):
        world.at(when_s, lambda: run.phase("evaluating", "validation split"))
        world.at(when_s + 8 * MINUTE, lambda: run.phase("checkpointing"))
        world.at(when_s + 11 * MINUTE, lambda: run.phase("training"))


def _stalled(world: SdkWorld) -> None:
    """Stands still, on an instance whose clock is 50 minutes behind."""
    run = world.training(STALLED, total=30_000, step_s=1.4, skew_s=-50 * MINUTE, gpus=1).beats(-9 * HOUR, -25.0)
    world.at(-21.5 * MINUTE, lambda: setattr(run, "still", True))


def _oom(world: SdkWorld) -> None:
    run = world.training(OOM, total=8_000, step_s=9.0, gpus=8, ranks=8, host="i-0badc0ffee0ddf00d")
    run.beats(-8 * HOUR, -2.2 * HOUR)
    message = (
        "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.10 GiB is "
        "free. Including non-PyTorch memory, this process has 78.04 GiB memory in use."
    )
    trace = (
        "Traceback (most recent call last):",
        '  File "/opt/rlhf/train.py", line 412, in <module>',
        "    main(parse_args())",
        '  File "/opt/rlhf/train.py", line 377, in main',
        "    trainer.step(queries, responses, rewards)",
        '  File "/opt/rlhf/ppo.py", line 228, in step',
        "    loss.backward()",
        f"torch.OutOfMemoryError: {message}",
    )

    def fail() -> None:
        # As torchrun prints what a rank says.
        run.say("rollout 96: 512 samples, longest 4096 tokens", *(f"[rank3]: {line}" for line in trace))
        run.say("process group torn down", "wandb: waiting for uploads to finish")
        run.error(f"{trace[-1]}\nrank 3 of 8 on ip-10-0-0-17, local rank 3, process 4242, attempt 1\n\n"
                          + "\n".join(trace) + "\n")  # fmt: skip

    world.at(-2.2 * HOUR + 20, fail)


def _by_error(world: SdkWorld) -> None:
    run = world.training(BY_ERROR, total=12_000, step_s=3.0).beats(-5 * HOUR, -25 * MINUTE)

    def fail() -> None:
        run.delete("logs/training_log_latest.txt")
        error = FileNotFoundError(2, "No such file or directory", "/data/common_voice/clips/en_0417.mp3")
        raising = compile("\n" * 87 + "raise error", "/opt/whisper/data.py", "exec")
        try:
            exec(raising, {"error": error})  # the trace names no file of ours
        except OSError as raised:
            trace = raised.__traceback__
            run.error(error_text(raised.with_traceback(trace.tb_next if trace else None)))

    world.at(-25 * MINUTE + 5, fail)


def _hangs(world: SdkWorld) -> None:
    run = world.training(HANGS, total=150_000, step_s=1.8, gpus=8, ranks=16).beats(-14 * HOUR, -10.0)
    since_s = -72 * MINUTE
    world.at(since_s, lambda: setattr(run, "still", True))
    world.at(since_s + 15 * MINUTE, lambda: run.put("logs/stacks.txt", _stacks(run)))


def _stacks(run: Training) -> str:
    """As the SDK writes them, of a training that waits for a collective."""
    head = f"No new step for 15 min, at step {run.step}, {world_time(run)}"
    own = dump_stacks(head).decode().split("\n\n", 1)[0]
    frames = (
        ("/opt/neox/train.py", 27, "<module>"),
        ("/opt/neox/megatron/training.py", 214, "pretrain"),
        ("/opt/neox/megatron/training.py", 868, "train_step"),
        ("/usr/lib/python3/dist-packages/deepspeed/runtime/engine.py", 1964, "allreduce_gradients"),
        ("/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 2501, "all_reduce"),
    )
    main = "\n".join(f'  File "{file}", line {line}, in {name}' for file, line, name in frames)
    loader = (
        '  File "/usr/lib/python3.11/threading.py", line 324, in wait\n  File "/opt/neox/data.py", line 88, in fetch'
    )
    return (
        f'{own}\n\nThread "MainThread" (main), most recent call last:\n{main}\n\n'
        f'Thread "data-prefetch-0", most recent call last:\n{loader}\n\n'
        f'Thread "lastbeat-beat", most recent call last:\n'
        f'  File "/usr/lib/python3/dist-packages/lastbeat/training/sdk/reporter.py", line 288, in _work\n'
        f'  File "/usr/lib/python3/dist-packages/lastbeat/training/sdk/stacks.py", line 63, in write\n'
    )


def world_time(run: Training) -> str:
    return run.now.isoformat().replace("+00:00", "Z")


def _done(world: SdkWorld) -> None:
    run = world.training(DONE, total=12_000, step_s=1.8).beats(-9 * HOUR, -3.1 * HOUR)
    world.at(-3.1 * HOUR + 10, lambda: run.say("[after training is done] top-1 81.4"))
    world.at(-3.1 * HOUR + 12, lambda: run.put("_complete", "top-1 81.4\n"))


def _flaps(world: SdkWorld) -> None:
    """Spot instances: it falls silent, comes back, is restarted, and one channel has been down for an hour."""
    run = world.training(FLAPS, total=60_000, step_s=1.2, host="i-05b0710000000001")
    run.beats(-20 * HOUR, -15 * HOUR).beats(-14 * HOUR, -9 * HOUR)
    world.at(-8.2 * HOUR, run.begin)
    run.beats(-8.2 * HOUR, -4 * HOUR)
    world.at(-3.4 * HOUR, run.begin)
    run.beats(-3.4 * HOUR, -45 * MINUTE).beats(-26 * MINUTE, -12.0)


def _gone(world: SdkWorld) -> None:
    world.training(GONE, total=400_000, step_s=2.2, host="i-05b0710000000002").beats(-11 * HOUR, -38 * MINUTE)


def _lags(world: SdkWorld) -> None:
    run = world.training(LAGS, total=90_000, step_s=2.5, tokens=2_097_152, gpus=8, ranks=64).beats(-7 * HOUR, -18.0)
    world.at(-40 * MINUTE, lambda: run.lag.update({41: 312}))


def _nan(world: SdkWorld) -> None:
    def diverging(step: int) -> float:
        return math.nan if step > 9_000 else 0.12 + 3.0 / (step / 90 + 1)

    world.training(NAN, total=25_000, step_s=1.6, loss=diverging).beats(-4.3 * HOUR, -22.0)


def _log_only(world: SdkWorld) -> None:
    run = world.training(LOG_ONLY, total=500)
    for minute in range(90, -1, -1):
        world.at(-60.0 * minute - 8, _line(run, 90 - minute))


def _line(run: Training, number: int) -> Callable[[], None]:
    return lambda: run.say(f"step {number * 5}/500 loss {2.5 - number / 90:.3f}")


def _restarted(world: SdkWorld) -> None:
    run = world.training(RESTARTED, total=10_000, step_s=2.0).beats(-6 * HOUR, -4.5 * HOUR)
    world.at(-4.5 * HOUR + 9, lambda: run.error("RuntimeError: NCCL communicator was aborted on rank 0\n"))
    world.at(-4.2 * HOUR, run.begin)
    world.at(-4.2 * HOUR, lambda: run.delete("_error"))
    run.beats(-4.2 * HOUR, -9.0)


def _old(world: SdkWorld) -> None:
    """Two that ended before anybody would still look."""
    for name in ("resnet50-baseline", "clip-vit-b32-2024"):
        run = world.training(name, total=1_000, step_s=10.0).beats(-75 * HOUR, -73 * HOUR)
        world.at(-73 * HOUR + 5, _complete(run))


def _complete(run: Training) -> Callable[[], None]:
    return lambda: run.put("_complete")
