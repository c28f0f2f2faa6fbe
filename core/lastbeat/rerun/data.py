"""The batches of a step, so that it can be run again with the same ones."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class RerunDataIterator(Iterator[T], Generic[T]):
    """Hands on the batches of ``iterable``, and keeps those of the present step for a re-run of it.

    A batch is kept as it is, and not copied: training must not change it in place.
    """

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterable = iterable
        self._wrapped = iter(iterable)
        self._batches: list[T] = []
        """Of the present step, as far as they were fetched."""
        self._next = 0
        """Which of them comes next; behind the last one, the next is fetched."""

    def __next__(self) -> T:
        if self._next == len(self._batches):
            self._batches.append(next(self._wrapped))
        batch = self._batches[self._next]
        self._next += 1
        return batch

    def rewind(self) -> None:
        """The step is run again: its first batch comes next."""
        self._next = 0

    def advance(self) -> None:
        """The step is done: its batches are let go of. Those of a step that was resumed and not run yet stay."""
        del self._batches[: self._next]
        self._next = 0

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint: the batches of a step that is to be run again, none otherwise, and the state of
        ``iterable``, where it has one (``state_dict``, as torchdata's loaders do)."""
        wrapped = self._stateful()
        return {
            "batches": list(self._batches),
            "wrapped": wrapped.state_dict() if wrapped is not None else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As :meth:`state_dict` left it: the batches in it come first. An iterable without a state of its own has to go
        on behind them by itself."""
        wrapped = self._stateful()
        if wrapped is not None and state.get("wrapped") is not None:
            wrapped.load_state_dict(state["wrapped"])
            self._wrapped = iter(self._iterable)
        self._batches, self._next = list(state.get("batches") or ()), 0

    def _stateful(self) -> Any:
        has_state = hasattr(self._iterable, "state_dict") and hasattr(self._iterable, "load_state_dict")
        return self._iterable if has_state else None
