"""Logs to measure the reading of logs with: made up, in the manner of Megatron-LM, the same on each machine."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

MB = 1_000_000
_RARE_EVERY = 20_000
"""Lines between two that are worth telling."""


def dense(choose: random.Random) -> Iterator[str]:
    """Little else than a line for each iteration."""
    for step in range(1, 1 << 40):
        yield _iteration(choose, step)
        if step % _RARE_EVERY == 0:
            yield from _rare(choose, step)


def chatter(choose: random.Random) -> Iterator[str]:
    """What loggers say: the same sentences with other numbers, names and identifiers, a step now and then."""
    for line in range(1, 1 << 40):
        yield choose.choice(_CHATTER)(choose)
        if line % 200 == 0:
            yield _iteration(choose, line // 200)
        if line % _RARE_EVERY == 0:
            yield from _rare(choose, line // 200)


def prose(choose: random.Random) -> Iterator[str]:
    """Text that never comes again: what a model says, printed by whoever trains it."""
    for line in range(1, 1 << 40):
        yield f"sample {line} | " + " ".join(choose.choices(_WORDS, _WEIGHTS, k=choose.randint(8, 24)))
        if line % 400 == 0:
            yield _iteration(choose, line // 400)
        if line % _RARE_EVERY == 0:
            yield from _rare(choose, line // 400)


KINDS: dict[str, Callable[[random.Random], Iterator[str]]] = {"dense": dense, "chatter": chatter, "prose": prose}


def write(kind: str, path: Path, size: int) -> None:
    """At least ``size`` bytes, and an end as a training run that failed has it."""
    choose = random.Random(kind)
    lines = KINDS[kind](choose)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        written = 0
        while written < size:
            block = "\n".join(next(lines) for _ in range(2000)) + "\n"
            written += file.write(block)
        file.write("\n".join(_END) + "\n")


def _iteration(choose: random.Random, step: int) -> str:
    day, clock = 1 + step // 86400 % 28, f"{step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}"
    return (
        f" [2025-11-{day:02} {clock}] iteration {step:8}/  500000 | consumed samples: {step * 512:12} | elapsed time "
        f"per iteration (ms): {choose.uniform(4000, 4200):.1f} | throughput per GPU (TFLOP/s/GPU): "
        f"{choose.uniform(390, 420):.1f} | learning rate: {choose.uniform(1e-5, 3e-4):.6E} | global batch size:   512 "
        f"| lm loss: {choose.uniform(1.8, 2.4):.6E} | loss scale: 1.0 | grad norm: {choose.uniform(0.1, 0.9):.3f} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def _rare(choose: random.Random, step: int) -> Iterator[str]:
    yield f"saving checkpoint at iteration {step:7} to /lustre/ckpt in torch_dist format"
    yield f"  successfully saved checkpoint from iteration {step:7} to /lustre/ckpt [ t 1/8, p 1/4 ]"
    yield f" validation loss at iteration {step} | lm loss value: {choose.uniform(1.8, 2.4):.6E} | PPL: 8.1 |"
    yield f"{_name(choose)}:{choose.randint(100, 9999)}:{choose.randint(100, 9999)} [0] NCCL WARN slow link"


def _hex(choose: random.Random, digits: int) -> str:
    return f"{choose.getrandbits(digits * 4):0{digits}x}"


def _name(choose: random.Random) -> str:
    return f"gpu-n{choose.randint(1, 512)}"


_CHATTER: tuple[Callable[[random.Random], str], ...] = (
    lambda c: (
        f"2025-11-25 08:46:{c.randint(0, 59):02},{c.randint(0, 999):03} INFO data.loader: shard "
        f"{c.randint(0, 99999):05} of split train, {c.randint(1, 9999)} samples, {c.random():.3f} s"
    ),
    lambda c: (
        f"2025-11-25 08:46:{c.randint(0, 59):02},{c.randint(0, 999):03} INFO data.loader: prefetch queue "
        f"{c.randint(0, 64)}/64, worker {c.randint(0, 15)} of rank {c.randint(0, 511)}"
    ),
    lambda c: (
        f"{_name(c)}:{c.randint(100, 9999)}:{c.randint(100, 9999)} [{c.randint(0, 7)}] NCCL INFO Channel "
        f"{c.randint(0, 31):02}/0 : {c.randint(0, 511)}[{c.randint(0, 7)}] -> {c.randint(0, 511)}[0] via NET/IB/2"
    ),
    lambda c: (
        f"I1125 08:46:{c.randint(0, 59):02}.{c.randint(0, 999999):06} {c.randint(100, 9999)} memory.cc:88] "
        f"allocated {c.uniform(1, 80):.2f} GiB, reserved {c.uniform(1, 80):.2f} GiB on device {c.randint(0, 7)}"
    ),
    lambda c: (
        f"2025-11-25T08:46:{c.randint(0, 59):02}Z INFO http: PUT /bucket/run/{_hex(c, 12)}/part-{c.randint(0, 999)} "
        f"200 {c.randint(1, 999)} ms"
    ),
    lambda c: (
        f"DEBUG scheduler: micro batch {c.randint(0, 63)} of stage {c.randint(0, 15)} forward {c.random():.4f} "
        f"backward {c.random():.4f}"
    ),
    lambda c: (
        f"(DataWorker pid={c.randint(1000, 99999)}, ip=10.0.{c.randint(0, 255)}.{c.randint(1, 254)}) tokenized "
        f"{c.randint(1, 99999)} documents from part {c.randint(0, 999)}"
    ),
    lambda c: (
        f"[rank{c.randint(0, 511)}]: gradient buckets {c.randint(1, 99)}, bytes {c.randint(1, 1 << 30)}, "
        f"overlap {c.random():.2f}"
    ),
    lambda c: (
        f"INFO telemetry: {_name(c)} temperature {c.randint(40, 80)} C power {c.randint(200, 700)} W clocks "
        f"{c.randint(1000, 1980)} MHz errors 0"
    ),
    lambda c: f"INFO cache: object {_hex(c, 32)} hit, age {c.randint(1, 9999)} s",
)
_VOCABULARY = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they "
    "which one you were all her she there would their we him been has when who will no more if out so up said what "
    "its about than into them can only other time new some could these two may first then do any like my now over "
    "such our man me even most made after also did many off before must well back through years where much your way "
    "down should because long each just state those people too mr how little good world make very year still see "
    "own work men day get here old life both between being under three never know same last another while us might "
    "great go come since against right came take used himself few house american use place during high without "
    "again home around small however found mrs part school thought went say general once upon war every left got "
    "does united number hand course water until always away public something fact less though far put head think "
    "called set almost enough end took government night yet system better four nothing told eyes city going "
    "president why days present point didn look find asked second group later next room social business knew "
    "program several half side since big error failed memory timeout signal exit process connection file read lost "
    "killed port loss value gradient training checkpoint model device worker node "
)
_WORDS = _VOCABULARY.split()
_WEIGHTS = [1 / (rank + 3) for rank in range(len(_WORDS))]
_END = (
    "[rank3]: Traceback (most recent call last):",
    '[rank3]:   File "/workspace/pretrain_gpt.py", line 271, in <module>',
    "[rank3]:     pretrain(train_valid_test_datasets_provider, model_provider)",
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.",
    "slurmstepd-gpu-n1: error: *** STEP 7.0 ON gpu-n1 CANCELLED AT 2026-11-21T04:15:48 ***",
)
