"""``_preempted``: training ended early because it was asked to, and saved a checkpoint first."""

import re
from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.json_values import encode, json_object, whole
from lastbeat.model.pattern import Pattern
from lastbeat.model.text import fit, one_line

LIMIT_BYTES: Final = 8 * 1024
_TEXT_LIMIT: Final = 200
_SAID: Final = Pattern(r"^\W{0,4}(checkpoint|step)\s{0,8}[:=]\s{0,8}(\S.{0,1000})$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Preemption:
    """What training said of it. All text is hostile."""

    checkpoint: str = ""
    """Where the checkpoint lies, or what it is called. Empty: not said."""
    step: int | None = None
    """The last step that is in the checkpoint."""
    why: str = ""
    """What asked for the end: ``received signal 15 (SIGTERM)``."""
    note: str = ""
    """The first line of a sentinel that names neither."""

    @property
    def summary(self) -> str:
        """``PREEMPTED, checkpoint at step 1500: /ckpt/step_1500; received signal 15 (SIGTERM)``: one line, bounded."""
        told = "PREEMPTED"
        if self.step is not None:
            told += f", checkpoint at step {self.step}" + (f": {self.checkpoint}" if self.checkpoint else "")
        elif self.checkpoint:
            told += f", checkpoint {self.checkpoint}"
        elif self.note:
            told += f": {self.note}"
        else:
            told += "; no checkpoint is named"
        return told + (f"; {self.why}" if self.why else "")


def encode_preemption(said: Preemption) -> bytes:
    """The document."""
    return encode({"checkpoint": said.checkpoint or None, "step": said.step, "why": said.why or None})


def read_preemption(body: bytes) -> Preemption:
    """The content of an untrusted document: JSON, lines such as ``step: 1500``, or any text."""
    text = body[:LIMIT_BYTES].decode("utf-8-sig", "replace")
    document = json_object(text)
    if document is None:
        return _of_text(text)
    return Preemption(_short(document.get("checkpoint")), _step(document.get("step")), _short(document.get("why")))


def _of_text(text: str) -> Preemption:
    said = {name.lower(): value for name, value in reversed(_SAID.compiled.findall(text.replace("\r\n", "\n")))}
    found = Preemption(_short(said.get("checkpoint")), _step(said.get("step")))
    if found != Preemption():
        return found
    first = next((line for line in text.splitlines() if line.strip()), "")
    return Preemption(note=_short(first))


def _step(value: object) -> int | None:
    step = whole(value.strip() if isinstance(value, str) else value)
    return step if step is not None and step >= 0 else None


def _short(value: object) -> str:
    return fit(one_line(value), _TEXT_LIMIT) if isinstance(value, str) else ""
