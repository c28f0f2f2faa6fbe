"""From the dumps of a few ranks: who waits in which collective, for whom, since when and where."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.flight_recorder.dump import Call, ProcessGroup, RankDump
from lastbeat.explain.flight_recorder.matching import stuck_collective
from lastbeat.model.stuck_collective import StuckCollective
from support.flight_dumps import NOON_NS, WORLD, Groups, Program, Step, document, dumps, pickled, read, run
from support.row_by_row import check_each
from support.there import there

FOUR: Groups = {WORLD: range(4)}
ROUND = [Step(), Step(name="all_gather", line=20), Step(name="broadcast", size=8, line=30)]
"""What each rank does in a step of training."""


def program(*, of: int = 4, **by_rank: Sequence[Step]) -> Program:
    """Two rounds, and for some ranks (``rank2``) something else."""
    return {rank: by_rank.get(f"rank{rank}", [*ROUND, *ROUND]) for rank in range(of)}


def stuck(program: Program, groups: Groups = FOUR, **options: object) -> StuckCollective | None:
    return stuck_collective(dumps(program, groups), **options)  # type: ignore[arg-type]


STUCK = {
    "a rank that stops never joins": (
        program(rank2=ROUND),
        2,
        "all_reduce #4 of group default_pg (0): rank 2 never joined; ranks 0-1, 3 wait since",
        "rank 2 was last at train.py:30 in step (broadcast #3, 11:06:43); ranks 0-1, 3 wait at train.py:10 in step",
    ),
    "a rank that leaves one out is in the next": (
        program(rank2=[ROUND[0], *ROUND[2:], *ROUND]),
        2,
        "all_gather #2 of group default_pg (0): rank 2 joined broadcast #2 [8] Float instead; ranks 0-1, 3 wait",
        "rank 2 was last at train.py:30 in step (broadcast #2, 11:06:42); ranks 0-1, 3 wait at train.py:20 in step",
    ),
    "another order": (
        program(rank3=[ROUND[1], ROUND[0], *ROUND[2:], *ROUND]),
        3,
        "all_reduce #1 of group default_pg (0): rank 3 joined all_gather #1 [4096] Float instead; ranks 0-2 wait",
        "rank 3 was last at train.py:20 in step",
    ),
    "other sizes": (
        program(rank1=[*ROUND, replace(ROUND[0], size=4000)]),
        1,
        "all_reduce #4 of group default_pg (0): rank 1 joined with other sizes ([4000] Float); ranks 0, 2-3 wait",
        "rank 1 was last at train.py:10 in step (all_reduce #4",
    ),
    "other types": (
        program(rank1=[*ROUND, replace(ROUND[0], dtype="BFloat16")]),
        1,
        "all_reduce #4 of group default_pg (0): rank 1 joined with other types ([4096] BFloat16)",
        "rank 1 was last at",
    ),
    "one round more": (
        program(rank0=[*ROUND, *ROUND, Step(line=40)]),
        0,
        "all_reduce #7 of group default_pg (0): ranks 1-3 never joined; rank 0 waits since",
        "ranks 1-3 were last at train.py:30 in step (broadcast #6",
    ),
}


def test_the_rank_that_differs_is_named_with_what_it_does() -> None:
    check_each(STUCK.items(), is_named)


def is_named(program: Program, root: int, sentence: str, places: str) -> None:
    found = there(stuck(program))
    assert found.sentence.startswith(sentence), found.sentence
    assert found.places.startswith(places), found.places
    assert found.root == root


def test_a_run_whose_calls_have_all_ended_is_not_stuck() -> None:
    assert stuck(program()) is None


PAIRS: Groups = {WORLD: range(4), "1": (0, 1), "2": (2, 3), "3": (1, 2)}


def test_ranks_that_wait_for_one_that_waits_itself_are_not_to_blame() -> None:
    """Rank 3 sleeps. Rank 2 waits for it in a pair, rank 1 for rank 2 in another pair, and rank 0 for all."""
    steps = {
        0: [Step(), Step()],
        1: [Step(), Step("3", "broadcast")],
        2: [Step(), Step("2", "all_gather"), Step("3", "broadcast")],
        3: [Step()],
    }
    found = there(stuck(steps, PAIRS))
    assert (found.root, found.call) == (3, "all_gather #1")
    assert found.group == "group 2 (2)"


def test_a_rank_in_another_group_is_said_to_be_there() -> None:
    steps = {0: [Step()], 1: [Step()], 2: [Step(), Step()], 3: [Step("2", line=70), Step()]}
    found = there(stuck({**steps, 2: [Step()]}, PAIRS))
    assert found.root == 3
    assert found.sentence.startswith(
        "all_reduce #1 of group default_pg (0): rank 3 joined all_reduce #1 [4096] Float of group 2 (2) instead"
    )
    assert found.circular


def test_partial_sets_of_dumps() -> None:
    whole = dumps(program(rank2=ROUND), FOUR)
    some = {rank: dump for rank, dump in whole.items() if rank in {0, 2}}
    assert there(stuck_collective(some)).root == 2, "the rank that is missing is among them"
    others = {rank: dump for rank, dump in whole.items() if rank != 2}
    found = there(stuck_collective(others))
    assert (found.root, found.sentence[:63]) == (2, "all_reduce #4 of group default_pg (0): rank 2 left no dump; ran")
    found = there(stuck_collective({0: whole[0]}))
    assert found.root is None, "three of four are not here: that says nothing of them"
    assert "ranks 1-3 left no dump" in found.sentence


def test_what_one_rank_has_got_past_the_others_wait_in() -> None:
    """As the source of a broadcast, which needs none of the others."""
    made = run(program(), FOUR)
    for rank in (1, 2, 3):
        step, number, at, _ = made[rank][-1]
        made[rank][-1] = (step, number, at, False)
    found = there(stuck_collective({rank: read(pickled(document(made[rank], FOUR, rank))) for rank in made}))
    assert found.root == 0
    assert found.sentence.startswith("broadcast #6 of group default_pg (0): rank 0 finished it and went on; ranks 1-3")


def test_if_all_have_joined_the_network_is_to_blame() -> None:
    made = run(program(), FOUR)
    made = {rank: [*each[:-1], (*each[-1][:3], False)] for rank, each in made.items()}
    found = there(stuck_collective({rank: read(pickled(document(made[rank], FOUR, rank))) for rank in made}))
    assert found.root is None
    assert "all of them joined" in found.sentence


def call(name: str, *, done: bool = False, started: bool = True, seq: int = 1, seconds: int = 0) -> Call:
    at = NOON_NS + seconds * 1_000_000_000
    return Call(seq, name, "[4] → [4]", "Float → Float", at, done, started, "pipe.py:5 in forward", 0, True, False)


def test_a_gpu_that_has_not_begun_is_named() -> None:
    group = ProcessGroup(WORLD, "default_pg", (0, 1, 2))
    found = there(
        stuck_collective({rank: RankDump({group: [call("all_reduce", started=rank != 1)]}) for rank in range(3)})
    )
    assert found.root == 1
    assert "rank 1 has not started it on its GPU" in found.sentence


def test_in_a_pipeline_the_stage_that_waits_for_nobody_is_named() -> None:
    group = ProcessGroup("4", "pp", (0, 2, 4, 6))
    steps: Mapping[int, list[Call]] = {
        0: [call("send 0->1", done=True)],
        2: [call("recv 1<-0", done=True), call("send 1->2", done=True)],
        4: [call("recv 2<-1", done=True)],
        6: [call("recv 3<-2", seconds=9)],
    }
    found = there(stuck_collective({rank: RankDump({}, {group: calls}) for rank, calls in steps.items()}))
    assert found.root == 4
    assert found.sentence.startswith("recv 3<-2 of group pp (4): rank 4 never joined; rank 6 waits since")


@st.composite
def deviating(draw: st.DrawFn) -> tuple[Program, Groups, int]:
    """A random program of all ranks, in which one rank does something else at one place."""
    size = draw(st.integers(4, 6))
    rank = draw(st.integers(0, size - 1))
    third = sorted({rank, *draw(st.permutations([each for each in range(size) if each != rank]))[:2]})
    groups = {WORLD: tuple(range(size)), "1": tuple(third)}
    names = st.sampled_from(["all_reduce", "all_gather", "broadcast", "barrier"])
    step = st.builds(Step, st.sampled_from(list(groups)), names, st.sampled_from([8, 4096]))
    steps = draw(st.lists(step, min_size=3, max_size=12))
    # Something that all ranks come to, so that each deviation shows.
    steps.append(Step(name="reduce"))
    at = draw(st.integers(0, len(steps) - 2))
    other = draw(step.filter(lambda each: each != steps[at]))
    own = {
        "stops": steps[:at],
        "leaves one out": [*steps[:at], *steps[at + 1 :]],
        "adds one": [*steps[:at], replace(steps[at], name="scatter"), *steps[at:]],
        "takes another": [*steps[:at], replace(other, group=steps[at].group, name="scatter"), *steps[at + 1 :]],
        "takes other sizes": [*steps[:at], replace(steps[at], name="all_reduce", size=99), *steps[at + 1 :]],
    }[draw(st.sampled_from(["stops", "leaves one out", "adds one", "takes another", "takes other sizes"]))]
    plan = {
        each: [step for step in (own if each == rank else steps) if each in groups[step.group]] for each in range(size)
    }
    return plan, groups, rank


@given(deviating())
def test_the_one_rank_that_deviates_is_named(found: tuple[Program, Groups, int]) -> None:
    plan, groups, rank = found
    made = run(plan, groups)
    if all(done for each in made.values() for _, _, _, done in each):
        return  # It took another call that is none of its own.
    assert there(stuck(plan, groups)).root == rank
