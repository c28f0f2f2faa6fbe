"""A fleet whose trainings write what nobody should: into every field, every file and every name that they choose."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from lastbeat.stores.port import Store
from support.view_places import Place
from support.view_world import HOUR, LOG, SdkWorld

MARK = "pwned"
"""A script that runs sets this name of the page's window."""
SCRIPT = f"<script>window.{MARK}=1</script>"
IMAGE = f'"><img src=x onerror="window.{MARK}=1">'
END = f"</script><script>window.{MARK}=1</script>"
COMMENT = f"<!--<script>window.{MARK}=1;//-->"
QUOTES = f"'\"`;window.{MARK}=1;//\\"
LINK = f"javascript:window.{MARK}=1"
TEMPLATE = f"{{{{constructor.constructor('window.{MARK}=1')()}}}}${{window.{MARK}=1}}"
SVG = f"<svg/onload=window.{MARK}=1><style>*{{background:url(https://evil.example/css)}}</style>"
FRAME = f'<iframe srcdoc="<script>parent.{MARK}=1</script>"></iframe><base href="https://evil.example/">'
ANSI = "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example/\x07click\x1b]8;;\x07 \x1b[2J\x9b31m"
REVERSED = "invoice\u202egnp.exe\u2066 \u200f\u200b \U000e0041"
BREAKS = "line\u2028separator\u2029paragraph\x85next\x00null\rreturn"
LONG = "x" * 100_000
TEXTS = (SCRIPT, IMAGE, END, COMMENT, QUOTES, LINK, TEMPLATE, SVG, FRAME, ANSI, REVERSED, BREAKS)
IDS = ("constructor", "-rf", "....", "NaN", "0", "user@host:22", "lr=1e-4:bs=256@v2+fix", "A" * 200)
"""Names that a run may have, and a page may stumble over. Those that begin with a dot are no runs in a directory, where
they are hidden files."""
NOT_IDS = ("%2e%2e", f"<img src=x onerror=window.{MARK}=1>", "a b", "ünïcode", "q'uote\"s")
"""Folders that are no runs."""


def hostile(at: Path | Store | Place, now: datetime) -> None:
    """Runs that write hostile text into every field, and folders with hostile names."""
    world = SdkWorld(now, seed=11)
    for number, text in enumerate(TEXTS):
        _fields(world, f"text-{number:02}", text)
        _error(world, f"error-{number:02}", text)
    _numbers(world)
    _lines(world)
    _files(world)
    _documents(world)
    _links(world)
    for name in (*IDS, *NOT_IDS):
        world.training(name, total=100, step_s=30.0).beats(-0.4 * HOUR, -20.0)
    world.passes((-1.5 * HOUR, -60.0, 600.0), (-20.0, -20.0, 1.0))
    world.play_into(at)


def _fields(world: SdkWorld, run_id: str, text: str) -> None:
    """Every field that training writes, as text where a number belongs, too."""

    def write() -> None:
        own_time = world.now.isoformat()
        named = (
            "status",
            "phase",
            "phase_detail",
            "instance_id",
            "zone",
            "instance_type",
            "host",
            "process",
            "lastbeat",
        )
        beat: dict[str, Any] = {
            **dict.fromkeys(named, text),
            "run_id": text,
            "attempt": text,
            "start_time": text,
            "last_update": own_time,
            "world_size": text,
            "phases": [[text, text], [world.now.timestamp(), text], text, [1], [[], {}]],
            "resources": {"cpu": text, "rss_bytes": text, "gpus": [{"name": text, "utilization": text}, text, None]},
            "health": {
                "conditions": [{"name": text, "text": text}, {"name": "gpu_lost", "text": text, "since": text}, text],
                "history": {"from": text, "each_s": text, "series": {text: [text], "gpu": [text, 1]}},
            },
            text[:200]: text,
        }
        metrics = {text[:90]: 1.5, "constructor": 2.5, "__proto__": 3.5, "toString": text}
        steps: dict[str, Any] = {
            "step": 7, "total_steps": text, "loss": text, "learning_rate": text, "epoch": text, "tokens": text,
            "steps_per_second": text, "tokens_per_second": text, "eta_s": text, "metrics": metrics,
            "recent": [[text, text, text, text], text, [1, 2, 3], [world.now.timestamp(), 5, text]],
            "last_updated": own_time,
        }  # fmt: skip
        rank = {"rank": text, "step": text, "loss": text, "phase": text, "status": text, "host": text, "attempt": text}
        _put(world, run_id, "metadata.json", json.dumps(beat))
        _put(world, run_id, "progress.json", json.dumps(steps))
        _put(world, run_id, LOG, f"{text}\nstep 7/100 loss 2.5 {text}\n{text}\n")
        _put(world, run_id, "ranks/0.json", json.dumps(rank))
        _put(world, run_id, "ranks/1.json", text)
        _put(
            world,
            run_id,
            "logs/stacks.txt",
            f'{text}\n\nThread "{text}" (main), most recent call last:\n  File "{text}"',
        )

    _now_and_then(world, write)


def _error(world: SdkWorld, run_id: str, text: str) -> None:
    """A failure, whose text and whose evidence in the log are hostile."""
    run = world.training(run_id, total=100, step_s=30.0).beats(-1.2 * HOUR, -0.5 * HOUR)

    def fail() -> None:
        line = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 {text}"
        trace = f'Traceback (most recent call last):\n  File "{text}", line 3, in <module>\n    {text}\n{line}\n'
        _put(world, run.run_id, LOG, f"{text}\n{trace}{text}\n")
        _put(world, run.run_id, "_error", f"{text}\n{trace}")

    world.at(-0.5 * HOUR + 5, fail)


def _numbers(world: SdkWorld) -> None:
    huge = "9" * 400
    kinds: dict[str, dict[str, str]] = {
        "numbers-huge": {"step": huge, "total_steps": huge, "loss": "1e308", "learning_rate": "1e999", "eta_s": huge},
        "numbers-negative": {
            "step": "-5",
            "total_steps": "-10",
            "loss": "-1e308",
            "steps_per_second": "-3",
            "eta_s": "-9",
        },
        "numbers-none": {"step": "0", "total_steps": "0", "loss": "NaN", "learning_rate": "-Infinity", "eta_s": "NaN"},
        "numbers-beyond": {
            "step": "500",
            "total_steps": "3",
            "loss": "5e-324",
            "learning_rate": "1e-300",
            "eta_s": "1e300",
        },
    }
    for run_id, fields in kinds.items():
        _now_and_then(world, _write_numbers(world, run_id, fields))


def _write_numbers(world: SdkWorld, run_id: str, fields: dict[str, str]) -> Callable[[], None]:
    def write() -> None:
        second = world.now.timestamp()
        points = [[second - 60, 1, 1e308, 1e-3], [second - 30, 2, -1e308, 0], [1e18, 3, 2.5, 1], [-1e18, -4, 0, -1],
                  [second - 20, 10**30, 1.0, 1.0], [second, 2, 2.0, 1e-9]]  # fmt: skip
        body = "".join(f'"{name}": {value}, ' for name, value in fields.items())
        _put(world, run_id, "progress.json", f'{{{body}"recent": {json.dumps(points)}}}')
        beat = {
            "phase": "train",
            "last_update": "9999-12-31T23:59:59Z",
            "start_time": "0001-01-01T00:00:00Z",
            "attempt": -3,
        }
        gpus = [{"name": "g", "utilization": -4, "memory_used_bytes": 10**30, "memory_total_bytes": 0}] * 500
        _put(
            world,
            run_id,
            "metadata.json",
            json.dumps(
                {
                    **beat,
                    "resources": {"cpu": -1, "rss_bytes": 1e300, "gpus": gpus},
                    "health": {
                        "conditions": [],
                        "history": {"from": second, "each_s": 1e-9, "series": {"gpu": [-1, 1e300, None] * 50}},
                    },
                }
            ),
        )

    return write


def _lines(world: SdkWorld) -> None:
    """Lines and names of 100,000 characters, everywhere."""

    def write() -> None:
        _put(world, "long-lines", "metadata.json", json.dumps({"phase": LONG, "instance_id": LONG, "host": LONG}))
        _put(world, "long-lines", "progress.json", json.dumps({"step": 1, "metrics": {LONG: 1, **_many_metrics()}}))
        _put(world, "long-lines", LOG, f"{LONG}\n" * 4 + "step 5/10 loss 1\n")
        _put(world, "long-lines", "logs/stacks.txt", f"{LONG}\n" * 3)

    _now_and_then(world, write)
    _error(world, "long-error", LONG)


def _many_metrics() -> dict[str, float]:
    return {f"metric/{number}": number / 7 for number in range(2_000)}


def _files(world: SdkWorld) -> None:
    """Files that nobody expects: of ranks, of logs."""

    def write() -> None:
        world.store.put_text("odd-files/metadata.json", '{"phase": "train"}')
        for rank in ("-1", "99999999", "007", "1e3", "<b>", "constructor"):
            _put(world, "odd-files", f"ranks/{rank}.json", '{"step": 3, "status": "<i>running</i>"}')
        for name in ("<img src=x onerror=window.pwned=1>.txt", "a&b=c?d#e.log", "..%2f.log", "__proto__.log"):
            _put(world, "odd-files", f"logs/{name}", f"{SCRIPT}\nstep 3/9 loss 1\n")

    _now_and_then(world, write)


def _documents(world: SdkWorld) -> None:
    """Documents that are none."""
    bodies = ("", "{", "[]", "nul", '"text"', "\x00\x01", '{"a":' * 5_000, "[" * 100_000, '{"phase": "\\ud800"}')
    for number, body in enumerate(bodies):
        names = ("metadata.json", "progress.json", "ranks/0.json")
        _now_and_then(world, _write_all(world, f"document-{number}", names, body))


def _write_all(world: SdkWorld, run_id: str, names: tuple[str, ...], body: str) -> Callable[[], None]:
    def write() -> None:
        for name in names:
            _put(world, run_id, name, body)

    return write


def _links(world: SdkWorld) -> None:
    """What people might click: nothing of it may become a link."""
    texts = (LINK, "https://evil.example/", "//evil.example/x", "data:text/html,<script>parent.pwned=1</script>")

    def write() -> None:
        beat = {"link": texts[0], "url": texts[1], "where": texts[2], "instance_id": texts[3], "host": texts[1]}
        _put(world, "links", "metadata.json", json.dumps(beat))
        _put(world, "links", LOG, "\n".join(texts))
        _put(world, "links", "_error", f"{texts[1]} {texts[0]}\n" + "\n".join(texts))

    world.at(-0.5 * HOUR, write)


def _now_and_then(world: SdkWorld, write: Callable[[], None]) -> None:
    for when_s in (-2400.0, -2000.0, -1600.0, -1200.0, -800.0, -400.0, -25.0):
        world.at(when_s, write)


def _put(world: SdkWorld, run_id: str, name: str, text: str) -> None:
    world.run(run_id).put(name, text, age_s=1.0)
