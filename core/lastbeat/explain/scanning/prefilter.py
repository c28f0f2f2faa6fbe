"""Selects the lines of a batch that may match a signal: in a healthy log hardly any."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lastbeat.explain import scanning
from lastbeat.explain.scanning.line_templates import templates_of
from lastbeat.explain.scanning.matching import Matcher
from lastbeat.explain.scanning.splitting import Batch

if TYPE_CHECKING:
    from lastbeat.explain.scanning.template_prefilter import TemplatePrefilter

EACH_STEP: Final = frozenset({"progress"})
"""Kinds of signals that many lines of healthy training match."""
MANY: Final = 64
"""Least suspicious lines of a batch that are grouped, and least groups whose templates are examined."""
OFTEN: Final = 16
"""Least lines of a template in a batch for its examination."""
_LONG_RUN: Final = 10_000
"""Suspicious lines after which templates are examined in any case, because the preparation pays off."""


class Prefilter:
    """Sorts out lines before ``Matcher.matches``.

    :meth:`lines` finds the lines that match any other signal than those of :data:`EACH_STEP`. :meth:`progress` finds
    the lines that may match those, the last one first, because a reader only needs the last step before another line.
    The results for a line do not depend on its batch.
    """

    def __init__(self, matcher: Matcher) -> None:
        self._templates = matcher.templates
        signals = matcher.signals
        self._each_step = frozenset(index for index, signal in enumerate(signals) if signal.kind in EACH_STEP)
        # Templates do not show signals that demand no letters, but their literals may.
        letterless = [(index, self._templates.literals[index]) for index in self._templates.letterless]
        self._texts = tuple((texts, index in self._each_step) for index, texts in letterless if texts)
        self._any_line = any(not texts and index not in self._each_step for index, texts in letterless)
        self._any_step = any(not texts and index in self._each_step for index, texts in letterless)
        self._matcher = matcher
        self._last: tuple[Batch, _Prefiltered] | None = None

    def lines(self, batch: Batch) -> Iterator[int]:
        """Indices of the lines that match a signal outside :data:`EACH_STEP`, ascending."""
        indices = range(len(batch)) if self._any_line else self._prefiltered(batch).lines()
        return (index for index in indices if self._matches(batch.line(index).text))

    def _matches(self, line: str) -> bool:
        return any(signal.kind not in EACH_STEP for signal, _ in self._matcher.matches(line))

    def progress(self, batch: Batch, start: int, stop: int) -> Iterator[int]:
        """Indices from ``start`` to ``stop`` of the lines that may match a signal of :data:`EACH_STEP`, last one
        first."""
        if self._any_step:
            return iter(range(stop - 1, start - 1, -1))
        return self._prefiltered(batch).steps(start, stop)

    def _prefiltered(self, batch: Batch) -> "_Prefiltered":
        if self._last is not None and self._last[0] is batch:
            return self._last[1]
        templates = templates_of(batch.text)
        suspicious: dict[bytes, tuple[int, ...]] = {}
        steps: set[bytes] = set()
        for template, signals in self._templates.possible_of_each(set(templates)).items():
            if not self._each_step.issuperset(signals):
                suspicious[template] = signals
            if not self._each_step.isdisjoint(signals):
                steps.add(template)
        found = _Prefiltered(templates, self._suspicious_lines(batch, templates, suspicious), steps)
        for texts, each_step in self._texts:
            indices = found.more_steps if each_step else found.more
            indices.update(_lines_with(batch, texts))
        self._last = batch, found
        return found

    def _suspicious_lines(
        self, batch: Batch, templates: Sequence[bytes], suspicious: Mapping[bytes, tuple[int, ...]]
    ) -> list[int]:
        """The lines with a suspicious template. If they are many, those that a closer check leaves.

        1. Return few lines as they are: matching decides.
        2. Drop frequent signals that no line matches, if one search of the batch shows that.
        3. Group lines that look the same to their signals, so that one check serves the group.
        4. Many groups, or many lines so far: examine the frequent templates themselves, drop signals that nothing in
           the batch can match, and group again what is left.
        5. Keep the lines of the groups that may match.
        """
        if not suspicious:
            return []
        lines = [index for index, template in enumerate(templates) if template in suspicious]
        if len(lines) < MANY:
            return lines
        closer = scanning.template_prefilter.shared_prefilter(self._matcher)
        count = Counter(map(templates.__getitem__, lines))
        often_asked = {index for template, times in count.items() if times >= MANY for index in suspicious[template]}
        absent = closer.absent(batch, often_asked - self._each_step) | self._each_step
        asking = {template: frozenset(signals) - absent for template, signals in suspicious.items()}
        lines = [index for index in lines if asking[templates[index]]]
        closer.lines += len(lines)
        groups = closer.groups(batch, lines, lambda index: asking[templates[index]])
        if len(groups) >= MANY or closer.lines >= _LONG_RUN:
            often = self._examined(closer, count, suspicious)
            present = closer.present(batch, frozenset().union(*often.values()) - absent)
            asking.update((template, signals & present) for template, signals in often.items())
            left = [index for index in lines if asking[templates[index]]]
            groups = closer.groups(batch, left, lambda index: asking[templates[index]])
        return sorted(index for group, indices in groups.items() if closer.may_match(group) for index in indices)

    def _examined(
        self, closer: "TemplatePrefilter", count: Mapping[bytes, int], suspicious: Mapping[bytes, tuple[int, ...]]
    ) -> dict[bytes, frozenset[int]]:
        """Frequent template → the signals that it can still match after its examination."""
        often: dict[bytes, frozenset[int]] = {}
        for template in [template for template in count if count[template] >= OFTEN]:
            known = frozenset(suspicious[template])
            often[template] = frozenset(closer.possible(template, sorted(known - self._each_step)))
            self._templates.narrow(template, tuple(sorted(often[template] | (known & self._each_step))))
        return often


class _Prefiltered:
    """The lines of one batch that the prefilter leaves."""

    def __init__(self, templates: list[bytes], suspicious: list[int], steps: set[bytes]) -> None:
        self._templates = templates
        self._steps = steps
        self.suspicious = suspicious
        self.more: set[int] = set()
        """Lines that hold a literal of a signal without letters."""
        self.more_steps: set[int] = set()

    def lines(self) -> Sequence[int]:
        return sorted({*self.suspicious, *self.more}) if self.more else self.suspicious

    def steps(self, start: int, stop: int) -> Iterator[int]:
        if not self._steps and not self.more_steps:
            return iter(())
        templates, wanted, more = self._templates, self._steps, self.more_steps
        return (index for index in range(stop - 1, start - 1, -1) if templates[index] in wanted or index in more)


def _lines_with(batch: Batch, texts: tuple[str, ...]) -> Iterator[int]:
    """Indices of the lines that hold one of ``texts``, in any case."""
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
