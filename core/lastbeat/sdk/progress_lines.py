"""Step and loss as training programs print them, found in their output line by line.

Known are Megatron (``iteration 100/ 500000 | … lm loss: 2.5E+00 |``), the Hugging Face Trainer
(``{'loss': 2.5, 'learning_rate': 5e-05, 'epoch': 0.1}`` beside a bar `` 12%|█ | 60/500 [``), Lightning
(``Epoch 0:  50%|… v_num=0, train_loss=2.3``), nanoGPT (``iter 100: loss 2.5, time …``) and everybody's own
(``step 100/1000 loss 2.5``, ``step=100 loss=2.5``, ``{"step": 100, "loss": 2.5}``).

No pattern has an unbounded repeat inside another and lines are cut before they are searched, so that a hostile line
costs no more than a long one.
"""

import re
from dataclasses import dataclass

LINE_LIMIT = 2000
"""Characters of a line that are searched."""

_IS = r"['\"]?\s{0,8}[:=]?\s{0,8}['\"]?"
_NUMBER = r"([-+]?(?:\d{1,20}(?:\.\d{0,20})?(?:e[-+]?\d{1,3})?|\.\d{1,20}|nan|inf(?:inity)?))(?![\w%])"
# Not the loss of an evaluation, and not the loss scale.
_LOSS = re.compile(
    r"(?<![\w/.-])(?<!val )(?<!valid )(?<!validation )(?<!eval )(?<!test )"
    rf"(?:train(?:ing)?[ _/])?(?:lm[ _]|step_)?loss(?:_step|_epoch)?{_IS}{_NUMBER}",
    re.IGNORECASE,
)
_RATE = re.compile(rf"(?<![\w/.-])(?:train/)?(?:learning[ _]rate|lr){_IS}{_NUMBER}", re.IGNORECASE)
_EPOCH = re.compile(rf"(?<![\w/.-])epoch{_IS}\[?\s{{0,8}}{_NUMBER}", re.IGNORECASE)
_OF = r"(?:\s{0,8}(?:/|of)\s{0,8}(\d{1,15}))"
_STEP = re.compile(
    r"(?<![\w/.-])(?:global[ _])?(?:step|iteration|iter)['\"]?\s{0,8}[:=#]?\s{0,8}\[?\s{0,8}"
    rf"(\d{{1,15}})(?![\d.]*\.?\d|[a-z%]){_OF}?",
    re.IGNORECASE,
)
_MEGATRON = re.compile(rf"(?<!\w)iteration\s{{1,8}}(\d{{1,15}}){_OF}\s{{0,8}}\|")
# A bar of tqdm: its label, n/total, and what stands behind.
_BAR = re.compile(r"\s{0,8}([^%|]{0,80}?)\s{0,8}\d{1,3}%\|[^|]{0,400}\|\s{0,8}(\d{1,15})/(\d{1,15}) \[(.*)")
_TRAINING = re.compile(r"(?:train(?:ing)?|steps?|iterations?|epoch.{0,40}):?", re.IGNORECASE)


@dataclass
class Progress:
    """What the lines so far say."""

    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    learning_rate: float | None = None
    epoch: float | None = None
    _last: int = 0
    """The step as it was last printed."""
    _before: int = 0
    """Steps of earlier epochs, where they are counted anew in each."""
    _bar_total: int | None = None
    _bar_full: bool = False

    def read(self, line: str) -> bool:
        """Whether ``line`` says something about progress that can be reported: the step is known. Never raises."""
        line = line[:LINE_LIMIT]
        if "%|" in line:
            return self._bar(line)
        lower = line.lower()
        if "loss" not in lower:
            return self._plain(_MEGATRON.search(line), None) if "iteration" in lower else False
        found = _LOSS.search(line)
        if found is None:
            return False
        self.loss = float(found[1])
        self._rest(line)
        epoch = _EPOCH.search(line)
        number = float(epoch[1]) if epoch is not None else None
        return self._plain(_STEP.search(line), number) or self.step is not None

    def _rest(self, text: str) -> None:
        if (rate := _RATE.search(text)) is not None:
            self.learning_rate = float(rate[1])

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
            return False
        label, count, total, behind = found[1], int(found[2]), int(found[3]), found[4]
        if label and not _TRAINING.fullmatch(label.rstrip(": ")):
            # Downloads, tokenisation, validation: their counts are not training's.
            return False
        epoch = _EPOCH.match(label) if label else None
        if epoch is None and not self._is_training(count, total):
            return False
        if (loss := _LOSS.search(behind)) is not None:
            self.loss = float(loss[1])
        self._rest(behind)
        self._count(count, total, float(epoch[1]) if epoch is not None else None)
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
                # Counted anew in this epoch.
                self._before += total
            self.epoch = epoch
        elif total is not None:
            # With an epoch beside it, a total may be that of the epoch.
            self.total_steps = total
        self._last = printed
        self.step = self._before + printed
