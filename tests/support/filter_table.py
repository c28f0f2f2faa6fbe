"""The filter language as a table: some runs, and which of them each filter leaves. Python and the page obey it."""

import math
from datetime import datetime, timedelta, timezone
from typing import Final

from lastbeat.model.figures import Figures
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import Row

_AT: Final = datetime(2026, 1, 2, 12, 0, tzinfo=timezone.utc)
ROWS: Final = (
    Row(
        "llama-dpo-seed1", ShownState(Status.RUNNING), figures=Figures(50, 200, 1.5), owner="ana", tags=("sweep3",),
        config={"optim.lr": 3e-4, "optimizer": "AdamW", "flash": True}, metrics={"eval/acc": 0.8}, steps_per_s=2.0,
        gpus=8, started=_AT, beat_at=_AT + timedelta(hours=2),
    ),
    Row(
        "llama-seed12", ShownState(Status.RUNNING, conditions=("stalled",)), figures=Figures(10, 200, math.nan),
        owner="bob", tags=("x" * 60,), config={"optim.lr": "1e-4", "optimizer": "lion"}, metrics={"eval/acc": math.inf},
        gpus=4,
    ),
    Row("vit+8", ShownState(Status.FAILED, "lr:1e-4 is too high", "oom"), host="n[1]", team="vision", attempt=3),
)  # fmt: skip
_A, _B, _C = (row.run_id for row in ROWS)
SENTENCES: Final = {
    "nothing asked for is all": ("", {_A, _B, _C}),
    "every word has to match": ("llama seed12", {_B}),
    "a text, in capitals or not": ("LLAMA", {_A, _B}),
    "a field": ("owner:AN", {_A}),
    "a field, as a glob of the whole": ("owner:?na", {_A}),
    "a condition": ("condition:stall", {_B}),
    "a field without that text": ("host:oom", set()),
    "a field of any case": ("Tag:sweep", {_A}),
    "brackets are no glob": ("host:n[1]", {_C}),
    "a glob of run ids": ("*dpo*", {_A}),
    "a glob is of the whole id": ("llama", {_A, _B}),
    "a glob's parts in their order": ("l**a*d*1", {_A}),
    "a glob of many parts, which is answered at once": ("tag:" + "*?" * 20 + "*!", set()),
    "a glob with a plus": ("vit+?", {_C}),
    "a word taken out": ("-seed1", {_C}),
    "a field taken out": ("-owner:ana", {_B, _C}),
    "a lone dash is a text": ("-", {_A, _B, _C}),
    "a number of the configuration": ("lr>1e-4", {_A}),
    "or equal, and a text that is a number": ("lr>=1e-4", {_A, _B}),
    "the whole name of a key": ("optim.lr<.0003", {_B}),
    "a key in capitals": ("LR<2e-4", {_B}),
    "a comparison taken out, of runs without the key too": ("-lr>1e-4", {_B, _C}),
    "NaN is neither more nor less": ("loss<2", {_A}),
    "NaN is not more": ("loss>=0", {_A}),
    "a metric": ("eval/acc>0.5", {_A, _B}),
    "percent done": ("done>=25", {_A}),
    "GPUs": ("gpus>=8", {_A}),
    "GPU-hours": ("gpu_hours>15.9", {_A}),
    "speed": ("speed>1", {_A}),
    "an attempt": ("attempt>1", {_C}),
    "a range": ("gpus>3 gpus<8", {_B}),
    "a key of the configuration, in capitals or not": ("optimizer:adam", {_A}),
    "a key, equal": ("optimizer=lion", {_B}),
    "a key's glob": ("optimizer:l*", {_B}),
    "a number that is equal, however it is written": ("lr:0.0001", {_B}),
    "a flag": ("flash:true", {_A}),
    "of a run without the key, a text": ("lr:1e-4", {_B, _C}),
    "a key that none has is a text": ("nofield:oom", set()),
    "a regular expression of run ids": ("/SEED[12]$/", {_A}),
    "a regular expression with choices": (r"/dpo|\d{2}$/", {_A, _B}),
    "two repeats": ("/l.*seed.+2/", {_B}),
    "it is of ids alone": ("/oom/", set()),
    "one taken out": ("-/^llama/", {_C}),
    "its capitals count where they mean something": (r"/vit\D8/", {_C}),
    "a lone slash is a text": ("/", set()),
}  # fmt: skip
REFUSED: Final = {
    "a comparison with no number": "loss<abc",
    "a repeat of a repeat": "/(a+)+b/",
    "choices in a repeat": "/(a|a)*b/",
    "three repeats": "/.*.*.*x/",
    "many that may be missing": f"/{'a?' * 9}{'a' * 9}/",
    "many choices": "/(a|a)(a|a)(a|a)(a|a)(a|a)(a|a)(a|a)(a|a)(a|a)/",
    "a reference back": r"/(.)\1/",
    "a look ahead": "/(?=a)b/",
    "what only one of two languages knows": r"/\Aa/",
    "a possessive repeat": "/a++/",
    "a class without anything": "/[]a]/",
    "an unclosed bracket": "/(a/",
    "a repeat of nothing": "/*a/",
    "one that is too long": f"/{'a' * 101}/",
}
"""Each matches nothing, and says why."""
KEYS: Final = ("LR", "eval/acc", "flash", "gpu_hours", "gpus", "lr", "nofield", "optim.lr", "optimizer")
"""What the filters ask the server for."""
