"""Step, loss and throughput as training programs print them, found in their output line by line.

Known are Megatron and NeMo (``iteration 100/ 500000 | … lm loss: 2.5E+00 |``), the Hugging Face Trainer
(``{'loss': 2.5, 'learning_rate': 5e-05, 'epoch': 0.1}`` beside a bar `` 12%|█ | 60/500 [``), Lightning
(``Epoch 0:  50%|… v_num=0, train_loss=2.3``), DeepSpeed (``[Rank 0] step=10, skipped=0, lr=[…]``), torchtitan,
torchtune, litgpt, MaxText, Composer, OLMo, fairseq, timm and the OpenMMLab ones, nanoGPT (``iter 100: loss 2.5, time
…``) and everybody's own (``step 100/1000 loss 2.5``, ``step=100 loss=2.5``, ``{"step": 100, "loss": 2.5}``).

No pattern has an unbounded repeat inside another and lines are cut before they are searched, so that a hostile line
costs no more than a long one.
"""

import math
import re
from dataclasses import dataclass
from typing import ClassVar

from lastbeat.model import progress_fields
from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import AnyFloat, Form

LINE_LIMIT = 2000
"""Characters of a line that are searched."""

_OF = r"(?:\s{0,8}(?:/|of)\s{0,8}(\d{1,15}))"
_MEGATRON = Pattern(rf"iteration\s{{1,8}}(\d{{1,15}}){_OF}\s{{0,8}}\|")
# Steps of programs that print them on a line without the loss: DeepSpeed, OLMo and verl, Composer.
_BARE_STEP = Pattern(
    r"(?:\[rank \d{1,6}\] |\[|/global_)step=(\d{1,15})(?:/(\d{1,15}))?(?=[,\]])|\[batch=(\d{1,15})/(\d{1,15})\]"
    r"|\Astep:(\d{1,15}) - "
)
# A bar of tqdm: its label, n/total, and what stands behind.
_BAR = Pattern(r"\s{0,8}([^%|]{0,80}?)\s{0,8}\d{1,3}%\|[^|]{0,400}\|\s{0,8}(\d{1,15})/(\d{1,15}) \[(.*)")
_TUNE = Pattern(r"\s{0,8}(\d{1,7})\|(\d{1,15})\|loss: ([-+]?[\w.]{1,25}): {1,8}\d{1,3}%\|")
_ROUNDED = Pattern(r"0?\.00+")
_TRAINING = Pattern(r"(?:train(?:ing)?|steps?|iterations?|epoch.{0,40}):?", re.IGNORECASE)


@dataclass
class Progress:
    """What the lines so far say."""

    FORM: ClassVar = Form.SPARSE

    step: int | None = None
    total_steps: int | None = None
    loss: AnyFloat | None = None
    learning_rate: AnyFloat | None = None
    epoch: AnyFloat | None = None
    not_finite_since: int | None = None
    """The step at which the loss became NaN or infinite. None: it is a number, or the step was not printed."""
    throughput: AnyFloat | None = None
    throughput_unit: str = ""
    """``it/s``, ``samples/s``, ``tokens/s``, ``TFLOP/s/GPU``, …"""
    _last: int = 0
    """The step as it was last printed."""
    _before: int = 0
    """Steps of earlier epochs, where each epoch counts from 0."""
    _bar_total: int | None = None
    _bar_full: bool = False

    @property
    def position(self) -> tuple[int, float]:
        """How far training is: a later one is greater. Some programs name their epochs alone."""
        epoch = self.epoch if self.epoch is not None and math.isfinite(self.epoch) else -1.0
        return (self.step if self.step is not None else -1, epoch)

    def read(self, line: str) -> bool:
        """Whether ``line`` says something about progress that can be reported: the step is known. Never raises."""
        reported = self._read(line[:LINE_LIMIT])
        if self.loss is None or math.isfinite(self.loss):
            self.not_finite_since = None
        elif self.not_finite_since is None:
            self.not_finite_since = self.step
        return reported

    def _read(self, line: str) -> bool:
        if "%|" in line:
            return self._bar(line)
        lower = line.lower()
        if "loss" not in lower:
            return self._without_loss(lower)
        found = progress_fields.loss(lower)
        if found is None:
            # "| loss scale: 1.0 |": an iteration that was skipped has no loss.
            return "iteration" in lower and self._megatron(lower)
        self.loss = float(found[1])
        self._rate(lower)
        if "iteration" in lower and self._megatron(lower):
            return True
        self._speed(progress_fields.throughput(lower))
        epoch = progress_fields.epoch(lower)
        number = float(epoch[1]) if epoch is not None else None
        counted = progress_fields.step(lower) or progress_fields.count(lower, epoch.end() if epoch is not None else 0)
        return self._plain(counted, number) or self.step is not None

    def _without_loss(self, lower: str) -> bool:
        """A line that only counts, or only tells the throughput."""
        if "iteration" in lower:
            return self._megatron(lower)
        if "step=" not in lower and "step:" not in lower and "[batch=" not in lower:
            if "/s" in lower and "throughput: " not in lower:
                # Inference servers, which reinforcement learning runs beside training, print a throughput of theirs.
                self._speed(progress_fields.throughput(lower))
            return False
        found = _BARE_STEP.search(lower)
        if found is None:
            return False
        self._speed(progress_fields.throughput(lower))
        self._rate(lower)
        total = found[2] or found[4]
        self._count(int(found[1] or found[3] or found[5]), int(total) if total else None, None)
        return True

    def _megatron(self, lower: str) -> bool:
        """Megatron's line, and NeMo's, which names the epoch and the step of all epochs."""
        found = _MEGATRON.search(lower)
        if found is None or lower[found.start() - 1 : found.start()].isalnum():
            return False
        self._speed(progress_fields.throughput(lower))
        if "global_step" in lower:
            epoch = progress_fields.epoch(lower)
            return self._plain(progress_fields.step(lower), float(epoch[1]) if epoch is not None else None)
        return self._plain(found, None)

    def _rate(self, lower: str) -> None:
        if (rate := progress_fields.rate(lower)) is not None:
            # One that is printed as 0.0000 may be small, and not zero.
            self.learning_rate = None if _ROUNDED.fullmatch(rate[1]) else float(rate[1])

    def _speed(self, found: tuple[float, str] | None) -> None:
        if found is not None:
            self.throughput, self.throughput_unit = found

    def _plain(self, found: "re.Match[str] | None", epoch: float | None) -> bool:
        """A line that names the step."""
        if found is None:
            if epoch is not None:
                self.epoch = epoch
            return False
        total = int(found[2]) if found[2] is not None else None
        self._count(int(found[1]), total, epoch)
        return True

    def _bar(self, line: str) -> bool:
        found = _BAR.match(line)
        if found is None:
            return self._torchtune(line)
        label, count, total, behind = found[1], int(found[2]), int(found[3]), found[4].lower()
        if label and not _TRAINING.fullmatch(label.rstrip(": ")):
            # Downloads, tokenisation, validation: their counts are not training's.
            return False
        epoch = progress_fields.epoch(label.lower()) if label else None
        if epoch is None and not self._is_training(count, total):
            return False
        if (loss := progress_fields.loss(behind)) is not None:
            self.loss = float(loss[1])
        self._rate(behind)
        self._speed(progress_fields.bar_throughput(behind))
        self._count(count, total, float(epoch[1]) if epoch is not None else None)
        return True

    def _torchtune(self, line: str) -> bool:
        """``1|100|Loss: 2.5:   5%|…``: the epoch and the step of all epochs."""
        lower = line.lower()
        found = _TUNE.match(lower)
        if found is None:
            return False
        try:
            self.loss = float(found[3])
        except ValueError:
            return False
        self._speed(progress_fields.bar_throughput(lower[found.end() :]))
        self.epoch = float(found[1])
        self._count(int(found[2]), None, None)
        return True

    def _is_training(self, count: int, total: int) -> bool:
        """Whether this bar counts training's steps: evaluation draws bars without a label, too. The longest one
        does, a next one may when that was full before any loss was printed, and with a loss the choice is settled."""
        known = self._bar_total
        settled = known is not None and self.loss is not None
        if known is not None and total != known and (settled or (total < known and not self._bar_full)):
            return False
        self._bar_total, self._bar_full = total, count >= total
        return True

    def _count(self, printed: int, total: int | None, epoch: float | None) -> None:
        known = self.epoch
        if epoch is not None:
            if total is not None and known is not None and epoch > known and printed < self._last:
                # This epoch counts from 0 again.
                self._before += total
            self.epoch = epoch
        elif total is not None:
            # With an epoch beside it, a total may be that of the epoch.
            self.total_steps = total
        self._last = printed
        self.step = self._before + printed
