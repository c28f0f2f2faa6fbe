"""Which lines of a batch are worth matching: in a log of a healthy run hardly any, and finding that out is cheap."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lastbeat.scanning.matching import Matcher
from lastbeat.scanning.shapes import shapes_of
from lastbeat.scanning.splitting import Batch

if TYPE_CHECKING:
    from lastbeat.scanning.closing_in import CloserLook

EACH_STEP: Final = frozenset({"progress"})
"""Kinds of signals that healthy training matches with every other line."""
MANY: Final = 64
"""Suspicious lines in a batch for which it is worth while to look at those that are alike together, and kinds of them
for which it is worth while to look at shapes more closely."""
OFTEN: Final = 16
"""Lines of one shape in a batch that make that one of these."""
LONG_RUN: Final = 10_000
"""Suspicious lines after which it is worth while however few kinds there are: to learn how takes a few milliseconds."""


class Candidates:
    """A filter before ``Matcher.matches``.

    Lines that match signals of a kind in :data:`EACH_STEP` and nothing else are kept apart. Of them a reader wants
    the last one before something happens: ``lines`` tells what happened, and ``progress`` between two such lines gives
    the candidates for the last step, the last one first. What either says of a line does not depend on the batch that
    it came in.
    """

    def __init__(self, matcher: Matcher) -> None:
        self._shapes = matcher.shapes
        signals = matcher.signals
        self._each_step = frozenset(index for index, signal in enumerate(signals) if signal.kind in EACH_STEP)
        # Of a signal without a letter that it demands no shape tells anything; what else it demands may.
        apart = [(index, self._shapes.literals[index]) for index in self._shapes.shapeless]
        self._texts = tuple((texts, index in self._each_step) for index, texts in apart if texts)
        self._any_line = any(not texts and index not in self._each_step for index, texts in apart)
        self._any_step = any(not texts and index in self._each_step for index, texts in apart)
        self._matcher = matcher
        self._last: tuple[Batch, _Found] | None = None

    def lines(self, batch: Batch) -> Iterator[int]:
        """Indices of the lines that match a signal of another kind than those of each step, ascending."""
        indices = range(len(batch)) if self._any_line else self._found(batch).lines()
        return (index for index in indices if self._tells(batch.line(index).text))

    def _tells(self, line: str) -> bool:
        return any(signal.kind not in EACH_STEP for signal, _ in self._matcher.matches(line))

    def progress(self, batch: Batch, start: int, stop: int) -> Iterator[int]:
        """Indices of the lines in this part of the batch that may match a signal of each step, the last one first."""
        if self._any_step:
            return iter(range(stop - 1, start - 1, -1))
        return self._found(batch).steps(start, stop)

    def _found(self, batch: Batch) -> "_Found":
        if self._last is not None and self._last[0] is batch:
            return self._last[1]
        shapes = shapes_of(batch.text)
        suspicious: dict[bytes, tuple[int, ...]] = {}
        steps: set[bytes] = set()
        for shape, signals in self._shapes.of(set(shapes)).items():
            if not self._each_step.issuperset(signals):
                suspicious[shape] = signals
            if not self._each_step.isdisjoint(signals):
                steps.add(shape)
        found = _Found(shapes, self._confirmed(batch, shapes, suspicious), steps)
        for texts, each_step in self._texts:
            indices = found.more_steps if each_step else found.more
            indices.update(_holding(batch, texts))
        self._last = batch, found
        return found

    def _confirmed(
        self, batch: Batch, shapes: Sequence[bytes], suspicious: Mapping[bytes, tuple[int, ...]]
    ) -> list[int]:
        """The lines of suspicious shapes; where there are many of one shape, those that bear a closer look."""
        if not suspicious:
            return []
        lines = [index for index, shape in enumerate(shapes) if shape in suspicious]
        if len(lines) < MANY:
            return lines
        from lastbeat.scanning.closing_in import closer_look  # noqa: PLC0415 - few logs need it

        closer = closer_look(self._matcher)
        closer.lines += len(lines)
        asked = {shape: frozenset(signals) - self._each_step for shape, signals in suspicious.items()}
        kinds = closer.kinds(batch, lines, lambda index: asked[shapes[index]])
        if len(kinds) >= MANY or closer.lines >= LONG_RUN:
            often = self._narrowed(closer, Counter(map(shapes.__getitem__, lines)), suspicious)
            present = closer.present(batch, frozenset().union(*often.values()))
            asked.update((shape, signals & present) for shape, signals in often.items())
            left = [index for index in lines if asked[shapes[index]]]
            kinds = closer.kinds(batch, left, lambda index: asked[shapes[index]])
        return sorted(index for kind, indices in kinds.items() if closer.bears(kind) for index in indices)

    def _narrowed(
        self, closer: "CloserLook", count: Mapping[bytes, int], suspicious: Mapping[bytes, tuple[int, ...]]
    ) -> dict[bytes, frozenset[int]]:
        """Of each shape that there is often: the signals that are left when it has been looked at more closely."""
        often: dict[bytes, frozenset[int]] = {}
        for shape in [shape for shape in count if count[shape] >= OFTEN]:
            known = frozenset(suspicious[shape])
            often[shape] = frozenset(closer.possible(shape, sorted(known - self._each_step)))
            self._shapes.narrow(shape, tuple(sorted(often[shape] | (known & self._each_step))))
        return often


class _Found:
    def __init__(self, shapes: list[bytes], suspicious: list[int], steps: set[bytes]) -> None:
        self._shapes = shapes
        self._steps = steps
        self.suspicious = suspicious
        self.more: set[int] = set()
        self.more_steps: set[int] = set()

    def lines(self) -> Sequence[int]:
        return sorted({*self.suspicious, *self.more}) if self.more else self.suspicious

    def steps(self, start: int, stop: int) -> Iterator[int]:
        if not self._steps and not self.more_steps:
            return iter(())
        shapes, wanted, more = self._shapes, self._steps, self.more_steps
        return (index for index in range(stop - 1, start - 1, -1) if shapes[index] in wanted or index in more)


def _holding(batch: Batch, texts: tuple[str, ...]) -> Iterator[int]:
    """Indices of the lines that hold one of these texts, in any case."""
    lowered = batch.text.lower()
    for text in texts:
        wanted = text.encode().lower()
        index, counted = 0, 0
        place = lowered.find(wanted)
        while place >= 0:
            index += lowered.count(b"\n", counted, place)
            counted = place
            yield index
            end = lowered.find(b"\n", place)
            place = lowered.find(wanted, end) if end >= 0 else -1
