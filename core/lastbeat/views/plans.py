"""Which documents are read first, where not all can be. Pure."""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from lastbeat.model import runid
from lastbeat.views.known import DocumentRequest
from lastbeat.views.order import NEEDS_PEOPLE

_SHARE: Final = 0.75
"""The most that what goes first takes of a round, where other documents wait as well."""


def chosen(
    wishes: Iterable[DocumentRequest],
    most: float,
    wanted: Collection[str],
    needs: Callable[[str], int | None],
    read_at: Callable[[str], int],
) -> list[DocumentRequest]:
    """At most ``most`` of ``wishes``: records first, then what people see right now, then the runs that need people,
    then those of which nothing is known yet; but a part is always for whatever has not been read for longest.

    ``needs`` tells how much a run needs people, ``read_at`` when something of it was last read, by whatever count."""

    def urgency(wish: DocumentRequest) -> int:
        if wish.extra:
            return 5
        if wish.name == runid.RECORD:
            return 0
        if wish.run_id in wanted:
            return 1
        need = needs(wish.run_id)
        return 2 if need is not None and need <= NEEDS_PEOPLE else 3 if wish.first else 4

    ordered = sorted(wishes, key=lambda wish: (urgency(wish), read_at(wish.run_id), wish.run_id, wish.name))
    if len(ordered) <= most:
        return ordered
    room = max(0, int(most))
    ahead = ordered[: int(room * _SHARE)]
    rest = sorted(ordered[len(ahead) :], key=lambda wish: (wish.extra, read_at(wish.run_id), urgency(wish)))
    return ahead + rest[: room - len(ahead)]
