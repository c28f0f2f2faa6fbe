"""What programs print of their progress, found by a reader of the whole log as by one who sees each line."""

from collections.abc import Sequence

import pytest

from lastbeat.causes.log_reader import LogReader
from lastbeat.model.progress_lines import Progress
from lastbeat.signals.loading import load
from unit.model.test_progress_lines import ROWS, SPEEDS


@pytest.mark.parametrize("catalogue", ["default", "base", "megatron_production"])
@pytest.mark.parametrize(("lines", "expected"), [*ROWS, *SPEEDS])
def test_a_reader_skips_no_line_that_tells_the_progress(lines: Sequence[str], expected: object, catalogue: str) -> None:
    seen = Progress()
    for line in lines:
        seen.read(line)
    reader = LogReader(load(catalogue), "train.log")
    reader.feed("".join(f"{line}\n" for line in lines).encode())
    reader.finish()
    found = reader.summary().progress
    assert repr((found.step, found.total_steps, found.loss)) == repr((seen.step, seen.total_steps, seen.loss))
    assert (found.throughput, found.throughput_unit) == (seen.throughput, seen.throughput_unit)
