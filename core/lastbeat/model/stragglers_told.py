"""The stragglers in a run's heartbeat, and how they are worded. Pure; the text in it is hostile."""

from collections.abc import Callable
from typing import Any, Final

from lastbeat.model.data import dataclass
from lastbeat.model.json_values import finite, whole
from lastbeat.model.stragglers import Straggler
from lastbeat.model.text import counted, fit, one_line

_MOST: Final = 64
_SHOWN: Final = 5
_NAME_LIMIT: Final = 100
_TOLD_LIMIT: Final = 300


@dataclass(frozen=True, slots=True)
class SlowNode:
    """A node with stragglers."""

    name: str
    ranks: int
    """Number of its ranks that are stragglers."""
    of: int


@dataclass(frozen=True, slots=True)
class StragglersTold:
    """The last report of rank 0."""

    world: int = 0
    count: int = 0
    ranks: tuple[Straggler, ...] = ()
    """The worst first, at most 64."""
    nodes: tuple[SlowNode, ...] = ()
    slow: float | None = None
    """Score of a slow job; None if the job is not slow."""

    @property
    def text(self) -> str | None:
        """``rank 76 on h100-009 is slow (score 0.61), of 512 ranks``. None: there is no straggler."""
        if not self.ranks:
            return None
        of = f", of {counted(self.world, 'rank')}" if self.world else ""
        if self.count == 1:
            return fit(f"rank {_named(self.ranks[0])}{_score(self.ranks[0])} is slow{of}", _TOLD_LIMIT)
        shown = ", ".join(f"{_named(each)}{_score(each)}" for each in self.ranks[:_SHOWN])
        more = f" and {self.count - _SHOWN} more" if self.count > _SHOWN else ""
        several = [f"{each.name} {each.ranks} of {each.of}" for each in self.nodes[:_SHOWN] if each.ranks > 1]
        where = f"; of the nodes' ranks: {', '.join(several)}" if several else ""
        return fit(f"{self.count} ranks are slow{of}: {shown}{more}{where}", _TOLD_LIMIT)

    @property
    def slow_text(self) -> str | None:
        """``steps take 1.6 times as long as in the best minutes, on all ranks alike``. None: they do not."""
        if self.slow is None:
            return None
        return f"steps take {1 / self.slow:.2g} times as long as in its best window, on all ranks alike"


def _named(one: Straggler) -> str:
    return f"{one.rank} on {one.node}" if one.node else str(one.rank)


def _score(one: Straggler) -> str:
    known = one.relative is not None or one.individual is not None
    return f" (score {one.worst:.2f})" if known else ""


def read_stragglers(value: object, shown: Callable[[str], str]) -> StragglersTold | None:
    """What a heartbeat says, as far as it is understood; ``shown`` hides what must not be seen. None: nothing looks for
    stragglers."""
    if not isinstance(value, dict):
        return None

    def name(text: object) -> str:
        return fit(one_line(shown(text[:1000])), _NAME_LIMIT) if isinstance(text, str) else ""

    ranks, nodes = list[Straggler](), list[SlowNode]()
    for each in _rows(value.get("ranks")):
        number = whole(each.get("rank"))
        if number is not None and number >= 0:
            scores = (_part(each.get("relative")), _part(each.get("individual")))
            ranks.append(Straggler(number, name(each.get("node")), *scores))
    for each in _rows(value.get("nodes")):
        hit, of, where = whole(each.get("ranks")), whole(each.get("of")), name(each.get("node"))
        if where and hit is not None and of is not None and 0 < hit <= of:
            nodes.append(SlowNode(where, hit, of))
    count = whole(value.get("count"))
    return StragglersTold(
        max(0, whole(value.get("world_size")) or 0),
        max(len(ranks), count or 0) if ranks else 0,
        tuple(ranks),
        tuple(nodes),
        _part(value.get("slow")),
    )


def _rows(value: object) -> list[dict[str, Any]]:
    return [each for each in value[:_MOST] if isinstance(each, dict)] if isinstance(value, list) else []


def _part(value: object) -> float | None:
    told = finite(value)
    return told if told is not None and 0 < told <= 1 else None
