"""The batches of a step, so that it can be run again with the same ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from lastbeat.rerun.random_state import RandomState

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
        self._random: list[RandomState | None] = []
        """What the random numbers were behind each of them: a loader may draw some."""
        self._guarded: Callable[[Callable[[], Any]], Any] | None = None
        self.raised = False
        """The present step got no further than to a fetch that raised."""

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
        """Steps may be run again: a batch that comes again leaves the random numbers as its fetch did. ``guarded``
        calls what may raise."""
        self._guarded = guarded

    @property
    def fetched(self) -> bool:
        """Whether the present pass has any batch of it."""
        return self._next > 0

    def rewind(self) -> None:
        """The step is run again: its first batch comes next."""
        self._next, self.raised = 0, False

    def advance(self) -> None:
        """The step is done: its batches are let go of. Those of a step that was resumed and not run yet stay."""
        del self._batches[: self._next], self._random[: self._next]
        self._next, self.raised = 0, False

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint: the batches of a step that is to be run again, none otherwise, and the state of
        ``iterable``, where it has one (``state_dict``, as torchdata's loaders do)."""
        wrapped = self._stateful()
        return {
            "batches": list(self._batches),
            "random": [each.document() if each is not None else None for each in self._random],
            "wrapped": wrapped.state_dict() if wrapped is not None else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As :meth:`state_dict` left it: the batches in it come first. An iterable without a state of its own has to go
        on behind them by itself."""
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
