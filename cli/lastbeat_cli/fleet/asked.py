"""What people ask to see of a fleet: by options, or by a view that has a name."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lastbeat.model.named_view import NamedView
from lastbeat.model.text import counted
from lastbeat.model.view import Row
from lastbeat.views.order import select
from lastbeat.views.row_keys import is_known, sorted_by
from lastbeat_cli.fleet import cells
from lastbeat_cli.fleet.cells import COLUMNS, Column


@dataclass(frozen=True)
class FleetAsked:
    """``columns``: names; empty for the usual ones."""

    globs: Sequence[str] = ()
    statuses: Sequence[str] = ()
    text: str = ""
    sort: Sequence[str] = ()
    columns: Sequence[str] = ()
    group: str = ""
    """Runs that say the same under this key stand together."""
    explain: bool = False

    def rows(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        """Those that were asked for, in the order that was."""
        return sorted_by(select(rows, self.globs, self.statuses, self.text), self.order)

    @property
    def order(self) -> tuple[str, ...]:
        """The keys by which rows are sorted."""
        return (self.group, *self.sort) if self.group else tuple(self.sort)

    @property
    def shown(self) -> Sequence[Column]:
        """The columns of the table, that by which runs are grouped among them."""
        asked = tuple(map(cells.column, self.columns)) or COLUMNS
        group = cells.column(self.group) if self.group else None
        return asked if group is None or group.heading in {each.heading for each in asked} else (group, *asked)

    def headings(self, rows: Sequence[Row]) -> Mapping[str, str]:
        """The first run of each group → the group's heading, as the page has it."""
        groups: dict[str, list[str]] = {}
        for row in rows if self.group else ():
            groups.setdefault(cells.key_text(row, self.group) or "none", []).append(row.run_id)
        return {ids[0]: f"{self.group}: {name} · {counted(len(ids), 'run')}" for name, ids in groups.items()}

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of configurations and metrics among the columns."""
        return tuple(name for name in (self.group, *self.columns) if name and name.casefold() not in cells.NAMES)

    def unknown(self, rows: Sequence[Row]) -> Iterator[str]:
        """The keys that none of ``rows`` says anything under."""
        keys = (*self.keys, *(key.removeprefix("-") for key in self.order))
        return (key for key in dict.fromkeys(keys) if rows and not is_known(key, rows))

    def over(self, view: NamedView) -> "FleetAsked":
        """This, and of ``view`` what this does not say; the words of both filters."""
        return replace(
            self,
            text=f"{view.filter} {self.text}".strip(),
            # The page may show what needs attention alone, which comes first here.
            statuses=self.statuses or tuple(each for each in listed(view.status) if each != "need"),
            sort=self.sort or listed(view.sort),
            columns=self.columns or listed(view.columns),
            group=self.group or view.group,
        )

    def saved_as(self, name: str, by: str) -> NamedView:
        """This as a view."""
        sort, columns, status = (",".join(each) for each in (self.sort, self.columns, self.statuses))
        return NamedView(name, self.text, status, sort, columns, self.group, by)


def listed(text: str) -> tuple[str, ...]:
    """The names in ``text``, with commas between. The page marks columns that stay in sight with ``!``; ``~`` and a
    width may follow."""
    names = (re.sub(r"!?(~\d+)?$", "", each.strip()) for each in text.split(","))
    return tuple(dict.fromkeys(filter(None, names)))
