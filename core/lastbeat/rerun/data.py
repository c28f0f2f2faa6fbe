"""Keeps the batches of a step, so that it can be run again with the same ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from lastbeat.rerun.random_state import RandomState

T = TypeVar("T")


class RerunDataIterator(Iterator[T], Generic[T]):
    """Iterates over the batches of ``iterable``, and keeps those of the current step for a re-run.

    A batch is kept without a copy, so training must not change it in place.
    """

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterable = iterable
        self._wrapped = iter(iterable)
        self._batches: list[T] = []
        """The fetched batches of the current step."""
        self._next = 0
        """Index of the next batch; after the last one, the next is fetched."""
        self._random: list[RandomState | None] = []
        """The random state after each batch, because a loader may draw random numbers."""
        self._guarded: Callable[[Callable[[], Any]], Any] | None = None
        self.raised = False
        """Whether the current step ended with a fetch that raised."""

    def __next__(self) -> T:
        if self._next == len(self._batches):
            self.raised = True
            batch = next(self._wrapped)
            self.raised = False
            self._random.append(self._guarded(RandomState.now) if self._guarded is not None else None)
            self._batches.append(batch)
        else:
            batch, then = self._batches[self._next], self._random[self._next]
            if then is not None and self._guarded is not None:
                self._guarded(then.restore)
        self._next += 1
        return batch

    def note_random(self, guarded: Callable[[Callable[[], Any]], Any]) -> None:
        """Keep random states, so that a repeated batch leaves the same random state as its fetch. ``guarded`` makes
        calls that may raise."""
        self._guarded = guarded

    @property
    def fetched(self) -> bool:
        """Whether the current pass has taken a batch."""
        return self._next > 0

    def rewind(self) -> None:
        """Start the step's batches again from the first."""
        self._next, self.raised = 0, False

    def advance(self) -> None:
        """Drop the batches of the finished step. Batches of a resumed step that was not run yet stay."""
        del self._batches[: self._next], self._random[: self._next]
        self._next, self.raised = 0, False

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint: the batches of a step that will be run again, and the state of ``iterable`` if it
        has one (``state_dict``, like torchdata's loaders)."""
        wrapped = self._stateful()
        return {
            "batches": list(self._batches),
            "random": [each.document() if each is not None else None for each in self._random],
            "wrapped": wrapped.state_dict() if wrapped is not None else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state from :meth:`state_dict`. Its batches come first. An iterable without a state of its own has
        to continue after them by itself."""
        wrapped = self._stateful()
        if wrapped is not None and state.get("wrapped") is not None:
            wrapped.load_state_dict(state["wrapped"])
            self._wrapped = iter(self._iterable)
        self._batches, self._next, self.raised = list(state.get("batches") or ()), 0, False
        self._random = [None] * len(self._batches)
        for index, each in enumerate(list(state.get("random") or ())[: len(self._batches)]):
            if each is not None and self._guarded is not None:
                self._random[index] = self._guarded(partial(RandomState.read, each))

    def _stateful(self) -> Any:
        has_state = hasattr(self._iterable, "state_dict") and hasattr(self._iterable, "load_state_dict")
        return self._iterable if has_state else None
