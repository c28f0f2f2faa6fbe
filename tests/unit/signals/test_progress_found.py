"""What programs print of their progress, found by a reader of the whole log as by one who sees each line."""

from collections.abc import Sequence

from lastbeat.explain.causes.log_reader import LogReader
from lastbeat.explain.signals.loading import load
from lastbeat.model.progress_lines import Progress
from support.row_by_row import check_each
from unit.model.test_progress_lines import ROWS, SPEEDS


def test_a_reader_skips_no_line_that_tells_the_progress() -> None:
    rows = [
        (f"{row.id}, by the catalogue {catalogue}", (row.values[0], catalogue))
        for row in (*ROWS, *SPEEDS)
        for catalogue in ("default", "base", "megatron_production")
    ]
    check_each(rows, is_found)


def is_found(lines: Sequence[str], catalogue: str) -> None:
    seen = Progress()
    for line in lines:
        seen.read(line)
    reader = LogReader(load(catalogue), "train.log")
    reader.feed("".join(f"{line}\n" for line in lines).encode())
    reader.finish()
    found = reader.summary().progress
    assert repr((found.step, found.total_steps, found.loss)) == repr((seen.step, seen.total_steps, seen.loss))
    assert (found.throughput, found.throughput_unit) == (seen.throughput, seen.throughput_unit)
