"""Several runs beside each other: in what their configurations differ, and how far their figures came. Pure."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from lastbeat.model.as_json import Json, picked, rounded
from lastbeat.model.view import RunView
from lastbeat.views.documents import row_document

RUNS_MOST: Final = 20
"""Most runs that are compared."""


@dataclass(frozen=True, slots=True)
class Reached:
    """One figure of one run, over the points that it keeps."""

    last: float | None = None
    least: float | None = None
    greatest: float | None = None


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run of a comparison."""

    view: RunView
    config: Mapping[str, str | float | bool] = field(default_factory=dict)
    """The keys in which the compared runs differ, as far as it has them."""
    figures: Mapping[str, Reached] = field(default_factory=dict)
    """``loss``, ``learning_rate`` and training's own figures."""
    curve: tuple[tuple[int, float], ...] = ()
    """Steps and losses."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """At least one run."""

    runs: tuple[ComparedRun, ...]
    keys: tuple[str, ...]
    """Keys of the configurations in which the runs differ, in the order of the first run that has them."""
    same: int
    """Number of keys that are the same in all of them."""
    figures: tuple[str, ...]


def compare(views: Sequence[RunView], kept: Mapping[str, Json] = MappingProxyType({})) -> Comparison:
    """Compare ``views``, which keep their order. ``kept`` has the curves of runs by their ids, as ``curves_table`` has
    them; of other runs the points of the heartbeat are all that is known."""
    every = list(dict.fromkeys(key for view in views for key in view.config))
    keys = tuple(key for key in every if len({_comparable(view, key) for view in views}) > 1)
    runs = tuple(
        ComparedRun(
            view,
            {key: view.config[key] for key in keys if key in view.config},
            dict(_figures(view, table)),
            tuple(_curve(view, table)),
        )
        for view, table in ((view, kept.get(view.row.run_id)) for view in views)
    )
    figures = tuple(dict.fromkeys(name for run in runs for name in run.figures))
    return Comparison(runs, keys, len(every) - len(keys), figures)


def comparison_document(found: Comparison) -> dict[str, object]:
    """The comparison as JSON can hold it."""
    runs = [
        {
            **row_document(run.view.row),
            **picked(run, "config figures"),
            "curve": [[step, rounded(loss)] for step, loss in run.curve],
        }
        for run in found.runs
    ]
    return {"schema": 1, **picked(found, "keys same figures"), "runs": runs}


def _comparable(view: RunView, key: str) -> tuple[str, str]:
    """A value with its type: 1 and true are not the same."""
    value = view.config.get(key)
    return type(value).__name__ if isinstance(value, bool) else "", str(value)


def _curve(view: RunView, table: Json | None) -> Iterator[tuple[int, float]]:
    steps = [point.step for point in view.points] if table is None else table["step"]
    # Without the least and the greatest: a line has one value a step.
    return ((step, loss) for step, loss in zip(steps, _values(view, table, "loss"), strict=False) if loss is not None)


def _figures(view: RunView, table: Json | None) -> Iterator[tuple[str, Reached]]:
    losses = _values(view, table, "loss")
    if view.row.loss is not None or any(loss is not None for loss in losses):
        yield "loss", _reached(view.row.loss, losses)
    if view.learning_rate is not None:
        yield "learning_rate", _reached(view.learning_rate, _values(view, table, "learning_rate"))
    for name, last in view.metrics.items():
        yield name, _reached(last, _values(view, table, name))


def _values(view: RunView, table: Json | None, name: str) -> list[float | None]:
    """The values of a figure; behind those of a table, the least and the greatest that its rows come to."""
    if table is None:
        own = name in {"loss", "learning_rate"}
        return [getattr(point, name) if own else point.metrics.get(name) for point in view.points]
    columns = ({**table, **table["metrics"]}, table["least"], table["greatest"])
    return [None if each is None else float(each) for column in columns for each in column.get(name, ())]


def _reached(last: float | None, points: Iterable[float | None]) -> Reached:
    finite = [value for value in (*points, last) if value is not None and math.isfinite(value)]
    return Reached(last, min(finite, default=None), max(finite, default=None))
