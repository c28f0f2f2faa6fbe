"""What dumps show outranks the word of ranks that only waited, and no line that names a fault."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.flight_recorder.cause import with_stuck
from lastbeat.explain.flight_recorder.matching import stuck_collective
from lastbeat.explain.signals.loading import load
from lastbeat.model.stuck_collective import StuckCollective
from lastbeat.watch.observe import local_dumps
from lastbeat_cli.explain import log_sources, reading
from lastbeat_cli.explain.lines import story_lines
from lastbeat_cli.explain.run import RankFacts
from lastbeat_cli.explain.story import ExplainReport, story_document
from support import missing_ranks
from support.flight_dumps import WORLD, Step, dumps, write
from support.row_by_row import check_each
from support.there import there

if TYPE_CHECKING:
    from lastbeat.watch.observe.flight_recorders import DumpFile

EIGHT = {WORLD: range(8)}
STUCK = {rank: [Step(), Step(line=88)] if rank != 5 else [Step()] for rank in range(8)}
PATTERNS = ("*rank*", "*trace*")


def shown() -> StuckCollective:
    return there(stuck_collective(dumps(STUCK, EIGHT))).located({5: "h100-3"})


RAISED = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\nRuntimeError: [gloo/transport/tcp/'
OUTRANKED = {
    "NCCL's watchdog on the ranks that waited": (missing_ranks.TIMED_OUT.format(rank=0, digit=0), "nccl_timeout", 5),
    "a rank that lost its peer": (f"{RAISED}pair.cc:553] Connection closed by peer [10.0.0.7]:32645\n", "hang", 5),
    "a gloo operation that timed out": (
        f"{RAISED}unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete\n",
        "hang",
        5,
    ),
    "a log that ends without a word": ("step 1 loss 2.5\nstep 2 loss 2.4\n", "hang", 5),
    "a rank that ran out of memory": (
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
        "oom",
        3,
    ),
    "a run that says that it is done": ("step 10/10 loss 2.5\nTraining completed successfully\n", None, None),
}


def test_who_is_believed() -> None:
    check_each(OUTRANKED.items(), is_believed)


def is_believed(log: str, error_type: str | None, rank: int | None) -> None:
    signals = load("default")
    found = with_stuck(explain_text(log, signals), shown(), signals.error_types)
    cause = found.cause
    assert (None if cause is None else cause.error_type, None if cause is None else cause.evidence.rank) == (
        error_type,
        rank,
    )
    assert (found.stuck is None) == (rank != 5)


def test_the_cause_names_the_rank_its_host_and_what_to_do() -> None:
    signals = load("default")
    log = explain_text(missing_ranks.TIMED_OUT.format(rank=0, digit=0), signals)
    found = with_stuck(log, shown(), signals.error_types)
    cause = there(found.cause)
    assert cause.evidence.text == (
        "all_reduce #2 of group default_pg (0): rank 5 on h100-3 never joined; ranks 0-4, 6-7 wait since 11:06:42 UTC"
    )
    assert (cause.evidence.host, cause.subsystem, found.ended) == ("h100-3", "collective", log.ended)
    assert cause.hint.startswith("Look at rank 5 on h100-3. Rank 5 on h100-3 was last at train.py:10 in step (all_red")
    assert "py-spy dump" in cause.hint
    assert [each.text for each in found.downstream] == [there(log.cause).evidence.text]


def story(folder: Path, *, hosts: bool = False) -> ExplainReport:
    taken: list[DumpFile] = []

    def take(path: Path, names: Sequence[str]) -> bool:
        taken.extend(local_dumps.below(path, names, PATTERNS))
        return bool(taken)

    sources = log_sources.directory(folder, lambda _: None, take)
    facts = RankFacts.of_folder(folder, str) if hosts else None
    return there(reading.story(sources, load("default"), str, [], [], ranks=facts, dumps=taken))


def test_a_folder_of_dumps_alone_is_explained(tmp_path: Path) -> None:
    for name in ("nccl_trace_rank_{rank}", "deep/er/trace_{rank}.json"):
        write(tmp_path / name[:4], STUCK, EIGHT, name=name.rpartition("/")[2])
        found = story(tmp_path / name[:4])
        assert there(found.explanation.cause).error_type == "hang"
        assert there(found.explanation.stuck).root == 5
        assert found.dumps == 8


def test_dumps_beside_logs_are_their_cause(tmp_path: Path) -> None:
    """The timeout is that of seven logs, and the host is that of the rank's heartbeat."""
    write(tmp_path / "flight", STUCK, EIGHT, name="rank_{rank}")
    for rank, text in missing_ranks.ranks(8, 5).items():
        (tmp_path / f"rank{rank}.log").write_text(text)
    (tmp_path / "ranks").mkdir()
    (tmp_path / "ranks" / "5.json").write_text(json.dumps({"rank": 5, "host": "h100-3"}))
    found = story(tmp_path, hosts=True)
    cause = there(found.explanation.cause)
    assert (cause.error_type, cause.evidence.rank, cause.evidence.host) == ("nccl_timeout", 5, "h100-3")
    assert found.explanation.missing is None
    document = story_document(found, str)["stuck"]
    assert isinstance(document, dict)
    assert document["root"] == 5
    assert [row["does"] for row in document["ranks"]] == ["never joined", "waits"]
    text = "\n".join("".join(part for part, _ in line) for line in story_lines(found, 120, str))
    assert "Ranks in all_reduce #2 of group default_pg (0)" in text
    assert "  rank 5 on h100-3  never joined  11:06:41  all_reduce #1 [4096] Float  train.py:10 in step" in text
    foot = " ".join(text.split())
    assert "Read: 8 logs in" in foot
    assert "and 8 dumps of flight recorders" in foot


def test_the_newest_dump_of_each_rank_counts(tmp_path: Path) -> None:
    """An earlier attempt's lies there, too."""
    write(tmp_path / "old", {rank: [Step()] for rank in range(8)}, EIGHT, name="trace_rank_{rank}")
    for path in (tmp_path / "old").iterdir():
        os.utime(path, (1, 1))
    write(tmp_path / "new", STUCK, EIGHT, name="trace_rank_{rank}")
    assert there(story(tmp_path).explanation.stuck).root == 5


def test_what_cannot_be_read_is_a_note(tmp_path: Path) -> None:
    write(tmp_path, STUCK, EIGHT)
    (tmp_path / "nccl_trace_rank_3").write_bytes(b"\x80\x02}q\x00(X\x07\x00\x00\x00entriesc")
    found = story(tmp_path)
    assert there(found.explanation.stuck).root == 5
    assert any("nccl_trace_rank_3 is no dump that can be read: opcode b'c'" in note for note in found.notes)


def test_dumps_alone_in_which_no_rank_waits_show_nothing(tmp_path: Path) -> None:
    write(tmp_path, {rank: [Step()] for rank in range(8)}, EIGHT)
    found = story(tmp_path)
    assert found.explanation.cause is None
    text = "\n".join("".join(part for part, _ in line) for line in story_lines(found, 120, str))
    assert text.startswith("No collective keeps a rank waiting in these dumps.")
