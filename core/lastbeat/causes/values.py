"""Values of training that are no numbers."""

from dataclasses import replace
from typing import Final

from lastbeat.causes.mentions import Account, Mention
from lastbeat.model.signal import Signal

GRADIENT: Final = "gradient"
"""Subsystem of signals for gradients that are no numbers: once, that is nothing."""


def of_evaluation(text: str, start: int) -> bool:
    """Whether the value at ``start`` is one of an evaluation, where it may be anything."""
    before = text[max(0, start - 12) : start + 1].lower()
    return any(word in before for word in ("val", "eval", "test"))


def count(account: Account, made: Mention, signal: Signal) -> None:
    """One more line with such a value, or the first since the last finite one."""
    if account.nan is None:
        account.nan = made
        account.nan.weak = signal.subsystem == GRADIENT
    else:
        account.nan = replace(account.nan, count=account.nan.count + 1)
