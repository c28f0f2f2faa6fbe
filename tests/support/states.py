"""Values that hold a state, with some of its fields changed."""

from dataclasses import replace
from typing import Any, TypeVar

from lastbeat.model.outcome import Outcome
from lastbeat.model.record import Record

Holder = TypeVar("Holder", Outcome, Record)


def with_state(holder: Holder, **changes: Any) -> Holder:
    """``holder`` with these fields of its state; the others stay."""
    assert holder.state is not None, "nothing was decided about it yet"
    return replace(holder, state=replace(holder.state, **changes))
