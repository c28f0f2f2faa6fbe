"""What was reported since training was last seen to go on: what went on after is forgotten, so a window stays small."""

from dataclasses import dataclass, field
from typing import Any, Final

from lastbeat.causes.mentions import Mention

FIRST: Final = 24
LAST: Final = 12
"""So many mentions are kept from either end."""
ENOUGH_STEPS: Final = 2
"""What was reported before so many further steps did not end the run. One step may have been under way."""
_REPEATS: Final = 3
_PASSED: Final = 3
_NEAR_LINES: Final = 4


@dataclass(slots=True)
class Window:
    """The mentions that count, and how often training went on."""

    steps: int = 0
    mentions: list[Mention] = field(default_factory=list)
    passed: list[Mention] = field(default_factory=list)
    """The last tracebacks that nobody caught and that training went on after all the same."""

    def add(self, mention: Mention) -> bool:
        """Whether it is kept: of what one rank says again and again only the first few are, and how often it was
        said."""
        said, rank = mention.signal, mention.evidence.rank
        same = [
            each
            for each in self.mentions
            if each.signal == said and each.evidence.rank == rank and each.raised == mention.raised
        ]
        if len(same) >= _REPEATS:
            same[-1].count += 1
            return False
        self.mentions.append(mention)
        if len(self.mentions) > FIRST + LAST:
            del self.mentions[FIRST]
        return True

    def go_on(self, steps: int = 1) -> bool:
        """Training is further. Whether nothing that was reported before counts any more."""
        self.steps += steps
        if not self.mentions:
            return True
        kept: list[Mention] = []
        for mention in self.mentions:
            if not over(mention, self.steps):
                kept.append(mention)
            elif mention.fatal and not mention.weak:
                self.passed = [*self.passed, mention][-_PASSED:]
        self.mentions = kept
        return not kept

    def forgive(self, number: int) -> None:
        """Line ``number`` says that something is tried again, or done without: what was reported just above it is no
        end."""
        for mention in self.mentions:
            if number - mention.evidence.line <= _NEAR_LINES and not mention.fatal:
                mention.weak = True

    def at(self, order: int) -> Mention | None:
        return next((mention for mention in self.mentions if mention.order == order), None)

    def state(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "mentions": [mention.document() for mention in self.mentions],
            "passed": [mention.document() for mention in self.passed],
        }

    @classmethod
    def restore(cls, state: dict[str, Any], file: str) -> "Window":
        return cls(
            int(state["steps"]),
            [Mention.of(each, file) for each in state["mentions"][: FIRST + LAST]],
            [Mention.of(each, file) for each in state["passed"][:_PASSED]],
        )


def over(mention: Mention, steps: int) -> bool:
    """Whether training that has gone on ``steps`` times shows that the mention was no end."""
    return steps - mention.steps >= (1 if mention.weak else ENOUGH_STEPS)
