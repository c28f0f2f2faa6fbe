"""Collects the results of a pass from training, and reads them after the pass."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from lastbeat.model.text import fit, one_line
from lastbeat.training.sdk.safe_log import WarnOnce, fault_text
from lastbeat.training.sdk.values import as_text, type_name

MOST_RESULTS: Final = 4096
"""Most results of one pass that are checked."""
MOST_NAMES: Final = 64
_NAME_CHARS: Final = 60
_VALUE_CHARS: Final = 40


@dataclass(frozen=True, slots=True)
class GivenResult:
    """One result. It is read only after the pass, because reading waits for the device."""

    name: str
    number: int
    """Number among the results of its name in the pass, from 1."""
    value: object
    rejects: Callable[[Any], str | None]
    """Returns why a value is bad, or None if it is good."""
    compare: Callable[[Any, Any], float]
    """Returns the relative difference of two values."""
    tolerance: float
    fatal: bool
    is_loss: bool
    """Whether it is a number, whose good values define the usual magnitude."""


class GivenResults:
    """The results of the current pass. No method raises into training, and each fault is logged once."""

    def __init__(self, warnings: WarnOnce) -> None:
        self._warnings = warnings
        self.all: list[GivenResult] = []
        self._counts: dict[str, int] = {}
        self._names: dict[str, str] = {}
        """Name from training → name for display."""

    def begin(self) -> None:
        """Begin a pass."""
        self.all, self._counts = [], {}

    def name_of(self, given: object) -> str:
        """The name ``given`` as one short line."""
        text = given if type(given) is str else as_text(given) or type_name(given)
        known = self._names.get(text)
        if known is None:
            known = fit(one_line(text), _NAME_CHARS)
            if len(self._names) < MOST_NAMES:
                self._names[text] = known
        return known

    def take(  # noqa: PLR0913 - all properties of a result
        self,
        result: object,
        name: str,
        rejects: Callable[[Any], str | None],
        compare: Callable[[Any, Any], float],
        tolerance: float,
        *,
        fatal: bool,
        is_loss: bool,
    ) -> None:
        """Add a result with its current value."""
        if len(self.all) >= MOST_RESULTS or (name not in self._counts and len(self._counts) >= MOST_NAMES):
            what = "lastbeat.rerun looks at %d results of a step, of %d names, and leaves the others out"
            self._warnings.warn("most", what, MOST_RESULTS, MOST_NAMES)
            return
        self._counts[name] = number = self._counts.get(name, 0) + 1
        try:
            value = _kept(result)
        except Exception as fault:  # noqa: BLE001 - a result may be of any type, and training goes on
            self._unreadable(name, result, fault)
            return
        self.all.append(GivenResult(name, number, value, rejects, compare, tolerance, fatal, is_loss))

    def read(self, given: GivenResult) -> tuple[Any, str | None] | None:
        """The value of ``given``, and why it is bad (None if it is good). None if it cannot be read."""
        try:
            value = float(given.value) if given.is_loss else given.value  # type: ignore[arg-type]
            return value, given.rejects(value)
        except Exception as fault:  # noqa: BLE001 - as above
            self._unreadable(given.name, given.value, fault)
            return None

    def difference(self, given: GivenResult, one: object, other: object) -> float | None:
        """The difference of two values of ``given``, or None if they cannot be compared."""
        try:
            return abs(float(given.compare(one, other)))
        except Exception as fault:  # noqa: BLE001 - as above
            self._unreadable(given.name, other, fault)
            return None

    def _unreadable(self, name: str, value: object, fault: Exception) -> None:
        what = "lastbeat.rerun cannot look at %s, a value of type %s: %s"
        self._warnings.warn(f"result {name}", what, name, type_name(value), fault_text(fault))


def _kept(result: object) -> object:
    """``result`` with its current value: a tensor is copied on its own device, which waits for nothing."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(result, torch.Tensor):
        return result.detach().clone()
    return result


def number(value: Any) -> float | None:
    """``value`` as a number, or None if it is none."""
    try:
        return float(value)
    except Exception:  # noqa: BLE001 - a result may be of any type
        return None


def shown(value: object) -> str:
    """``value`` for display."""
    found = number(value)
    return f"{found:.6g}" if found is not None else fit(one_line(type_name(value)), _VALUE_CHARS)


def shown_apart(one: object, other: object) -> tuple[str, str]:
    """Both values for display, with enough digits to distinguish two different numbers."""
    texts = shown(one), shown(other)
    numbers = number(one), number(other)
    if texts[0] != texts[1] or None in numbers or numbers[0] == numbers[1]:
        return texts
    return repr(numbers[0]), repr(numbers[1])
