"""What the lines of one file tell, one after the other: what went wrong, and what training did after it."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from lastbeat.causes import contexts, endings, stated, values
from lastbeat.causes.advances import Advances, has_finite_loss
from lastbeat.causes.meanings import Meaning, meaning_of
from lastbeat.causes.mentions import Account, Mention, fields_of, text_of
from lastbeat.causes.stacks import Stacks
from lastbeat.causes.tracebacks import Block, Blocks
from lastbeat.causes.window import ENOUGH_STEPS, Window
from lastbeat.model.cause import Evidence
from lastbeat.model.signal import CONFIRMATION, Catalogue, Signal
from lastbeat.scanning.matching import matcher_of
from lastbeat.scanning.splitting import Line

Step = tuple[str, datetime | None]
"""A line that may show a step, and the time that it names."""
_JUST_ABOVE: Final = 2
_ATTENTIVE_LINES: Final = 300
"""So many lines after a report are looked at one by one."""
_RANKS_LIMIT: Final = 64
_LONG: Final = 10**6
_MAKES_WAY_LINES: Final = 50


class Story:
    """Made of the lines that are worth being looked at, in their order."""

    def __init__(self, catalogue: Catalogue, file: str, rank: int | None) -> None:
        self._matcher = matcher_of(catalogue)
        exceptions = (each for each in catalogue.signals if each.kind == "exception" and each.severity == "warning")
        self._any = next(exceptions, None)
        self.awaited = {absence.signal for absence in catalogue.absences}
        """Signals that absence rules wait for."""
        self._advances = Advances()
        self._blocks = Blocks()
        self._stacks = Stacks()
        self._window = Window()
        self._account = Account(file, rank)
        self._error = stated.is_error(file)
        """Whether every line is about a failure."""
        self._order = 0
        self._reported = -_ATTENTIVE_LINES
        """Order of the last mention that was kept."""
        self._raised: dict[str, int] = {}
        """Rank → order of its last exception, for what is chained to it."""
        self._links: dict[str, str] = {}
        self._empty: int = -1
        """Order of an exception whose message begins on the next line."""
        self._above = {"quiet": -_LONG, "announced": -_LONG, "restart": -_LONG}
        """Kind of line → where the last one of it stood: what they say of a traceback below them."""

    def attentive(self, order: int) -> bool:
        """Whether the line ``order`` has to be looked at whatever it is: it may go on with something, or acquit."""
        if self._blocks.open or self._stacks.open or (self._error and order < stated.MOST_LINES):
            return True
        if self._account.nan is not None:
            # The line that shows a number again may be any.
            return True
        return bool(self._window.mentions) and order - self._reported < _ATTENTIVE_LINES

    def skipped(self, bytes_count: int) -> None:
        """Text was left out here."""
        self._blocks.open.clear()
        self._stacks.open = False
        self._empty = -1
        self._raised.clear()
        self._links.clear()
        self._account.skipped_bytes += bytes_count

    def read_to(self, number: int) -> None:
        """Line ``number`` is the last so far."""
        self._account.lines = number

    def account(self) -> Account:
        """What was told so far."""
        window = self._window
        return replace(
            self._account,
            steps=window.steps,
            mentions=[replace(mention) for mention in [*window.passed, *window.mentions]],
            stacks=list(self._stacks.found),
            progress=replace(self._account.progress),
            last_seen=dict(self._account.last_seen),
        )

    def ahead(self, texts: Sequence[Step]) -> Account:
        """The account as it would be if these lines of steps were made something of; nothing is."""
        if not texts:
            return self.account()
        return copy.copy(self).looking_ahead(texts)

    def looking_ahead(self, texts: Sequence[Step]) -> Account:
        """Of a copy: as :meth:`ahead`."""
        self._account = replace(self._account, progress=replace(self._account.progress))
        self._window, self._advances = copy.deepcopy(self._window), copy.deepcopy(self._advances)
        self._stacks = copy.copy(self._stacks)
        for text, time in texts:
            self.progressed(text, time)
        return self.account()

    def see(self, text: str, at: datetime | None) -> None:
        """A line of a step that nothing else is made of: it may be one that is awaited."""
        self._see(meaning_of(self._matcher, text), at)

    def _see(self, meaning: Meaning, at: datetime | None) -> None:
        if at is not None:
            for name in self.awaited.intersection(meaning.names):
                self._account.last_seen[name] = at

    # What lines say.

    def line(self, order: int, line: Line, at: datetime | None) -> None:
        """A line; ``order`` counts all lines of the file, overwritten ones, too."""
        self._order = order
        account = self._account
        self._clock(line.time)
        rank = line.rank if line.rank is not None else account.rank
        if self._blocks.open:
            found = self._blocks.read(rank, line.text)
            if found is True:
                return
            if isinstance(found, tuple):
                self._exception(line, rank, *found)
                return
        if not self._stacks.read(rank, line):
            self._plain(line, rank, at)

    def _plain(self, line: Line, rank: int | None, at: datetime | None) -> None:
        text = line.text
        meaning = meaning_of(self._matcher, text)
        if self.awaited:
            self._see(meaning, at)
        kinds, told = meaning.kinds, meaning.told
        for kind in self._above.keys() & kinds:
            self._above[kind] = line.number
        if "traceback" in kinds and "\\n" not in text:
            quiet, logged = (line.number - self._above[kind] for kind in ("quiet", "announced"))
            self._blocks.begin(rank, text, line.number, quiet=quiet <= _JUST_ABOVE, logged=logged == 1)
            self._empty = -1
            return
        if "chain" in kinds:
            if len(self._links) >= _RANKS_LIMIT:
                self._links.clear()
            self._links[str(rank)] = "cause" if kinds["chain"].name.endswith("cause") else "handling"
            return
        if "done" in kinds and told is None:
            self._went_on(ENOUGH_STEPS)
            self._account.success = self._made(line, rank, kinds["done"], {})
        elif "restart" in kinds:
            self._went_on(ENOUGH_STEPS)
            # Nor is it what ends the run if the next attempt does not get as far as to say a word.
            self._window.passed.clear()
        if "nan" in kinds and (told is None or contexts.states_a_value(told, text)):
            self._not_a_number(line, rank, meaning)
        elif told is not None and "advice" not in kinds and self._reports(line, rank, told, meaning):
            return
        elif self._error and line.number <= stated.MOST_LINES and (said := stated.signal_in(text)) is not None:
            self._keep(self._made(line, rank, said, {}), said)
            return
        elif self._window.mentions and contexts.retries(text):
            self._window.forgive(line.number)
        more = line.time is None and self._order - 1 in self._raised.values()
        if self._window.mentions and not more and not endings.is_rest(text):
            self._account.talked = line.number
        self.progressed(text, line.time)

    def _reports(self, line: Line, rank: int | None, told: Signal, meaning: Meaning) -> bool:
        """Whether the line reports what the signal means, as opposed to speaking of it."""
        match = meaning.match
        if match is None:
            return False
        sure = meaning.exception or self._error
        weight = contexts.weight_of(line.text, match.start(), match.end(), told, exception=sure)
        if weight == "none" or self._makes_way(line, told):
            return False
        weak = weight == "weak" or ("retry" in meaning.kinds and told.role != CONFIRMATION)
        made = self._made(line, rank, told, fields_of(match.groupdict(), told.extract))
        made.weak, made.raised = weak, self._error
        made.low = not sure and contexts.level_of(line.text) in {"info", "warning"}
        self._keep(made, told)
        return True

    def _makes_way(self, line: Line, told: Signal) -> bool:
        """Whether the launcher ends what is left of an attempt, having said that it begins another."""
        ends = told.role == CONFIRMATION and not told.extract and not self._window.mentions
        return ends and line.number - self._above["restart"] <= _MAKES_WAY_LINES

    def _exception(self, line: Line, rank: int | None, block: Block, body: str) -> None:
        """The last line of a traceback."""
        meaning = meaning_of(self._matcher, body)
        # An exception whose class no signal knows is some exception all the same.
        told = meaning.told or self._any
        if told is None:
            return
        groups = meaning.match.groupdict() if meaning.match is not None else {}
        made = self._made(line, rank, told, {**fields_of(groups, told.extract), "spoken": block.words})
        made.raised, made.weak = True, block.quiet
        # The hook that torch sets for exceptions that nobody caught prints the rank before each line.
        made.fatal = block.fatal or (not block.quiet and f"[rank{rank}]: " in line.raw)
        made.low = block.logged and not made.fatal
        made.where, made.site = block.place, block.site
        key = str(rank)
        link = self._links.pop(key, "")
        if link and key in self._raised:
            made.link = "cause" if link == "cause" else "handling"
            made.after = self._raised[key]
        self._raised.pop(key, None)
        self._raised[key] = made.order
        if len(self._raised) > _RANKS_LIMIT:
            del self._raised[next(iter(self._raised))]
        self._keep(made, told)
        _, colon, message = body.partition(":")
        if (told.kind == "exception" and colon and not message.strip()) or body.rstrip().endswith(" raised:"):
            self._empty = made.order

    def _keep(self, made: Mention, signal: Signal) -> None:
        empty, self._empty = self._empty, -1
        if empty >= 0 and made.order == empty + 1 and signal.role != CONFIRMATION:
            # The message of an exception whose own line ends behind the class.
            mention = self._window.at(empty)
            if mention is not None:
                mention.signal, mention.fields = made.signal, {**mention.fields, **made.fields}
                return
        if self._window.add(made):
            self._reported = made.order

    def _made(self, line: Line, rank: int | None, signal: Signal, extracted: Mapping[str, str]) -> Mention:
        evidence = Evidence(self._account.file, line.number, text_of(line.raw), rank, line.host, line.time)
        return Mention(signal.name, evidence, self._order, self._window.steps, extracted)

    # What training does.

    def progressed(self, text: str, time: datetime | None) -> None:
        """A line that may show that training is further."""
        self._clock(time)
        account = self._account
        account.progress.read(text)
        if account.nan is not None and has_finite_loss(text):
            account.nan = None
        if self._advances.read(text, again=bool(self._window.mentions)):
            account.success = None
            account.progress_time = time or account.progress_time
            self._went_on(1)

    def _clock(self, time: datetime | None) -> None:
        last = self._account.last_time
        if time is not None and (last is None or time > last):
            self._account.last_time = time

    def _went_on(self, steps: int) -> None:
        if self._window.go_on(steps):
            self._stacks.found = []

    def _not_a_number(self, line: Line, rank: int | None, meaning: Meaning) -> None:
        if not values.of_evaluation(line.text, meaning.found["nan"].start()):
            signal = meaning.kinds["nan"]
            values.count(self._account, self._made(line, rank, meaning.told or signal, {"value": "nan"}), signal)

    # For a later process.

    def state(self) -> dict[str, Any]:
        """As JSON knows it; bounded."""
        return {
            "account": self._account.document(),
            "order": self._order,
            "reported": self._reported,
            "raised": self._raised,
            "links": self._links,
            "empty": self._empty,
            "above": self._above,
            "advances": self._advances.state(),
            "blocks": self._blocks.state(),
            "stacks": self._stacks.state(),
            "window": self._window.state(),
        }

    @classmethod
    def restore(cls, catalogue: Catalogue, state: Mapping[str, Any]) -> "Story":
        account = Account.of(state["account"])
        file = account.file
        story = cls(catalogue, file, account.rank)
        story._account = account
        story._order = int(state["order"])
        story._reported = int(state["reported"])
        story._raised = {str(key): int(value) for key, value in state["raised"].items()}
        story._links = {str(key): str(value) for key, value in state["links"].items()}
        story._empty = int(state["empty"])
        story._above = {kind: int(state["above"][kind]) for kind in story._above}
        story._advances = Advances.restore(state["advances"])
        story._blocks = Blocks.restore(state["blocks"])
        story._stacks = Stacks.restore(state["stacks"])
        story._window = Window.restore(state["window"], file)
        return story
