"""Faults on purpose: how they are asked for, and that ranks which decide alone decide alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.simulated_fault import (
    FAULT_TYPES,
    FaultRequest,
    SimulatedFault,
    decided,
    launch_seed,
    read_fault,
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param("rank_killed:2:30", FaultRequest("rank_killed", 2, 30.0), id="all of it"),
        pytest.param("nan", FaultRequest("nan"), id="a type alone"),
        pytest.param("nan:3", FaultRequest("nan", 3), id="and a rank"),
        pytest.param("nan::0.5", FaultRequest("nan", None, 0.5), id="and a delay"),
        pytest.param("random", FaultRequest(), id="anything"),
        pytest.param(" random : random : random ", FaultRequest(), id="all three random, with blanks"),
        pytest.param("preempt:0:0", FaultRequest("preempt", 0, 0.0), id="rank 0, at once"),
    ],
)
def test_what_is_asked_for(text: str, meant: FaultRequest) -> None:
    assert read_fault(text) == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("rank_kiled:2", "[Dd]id you mean '?rank_killed", id="a slip"),
        pytest.param("", "names no fault", id="nothing"),
        pytest.param("nan:two", "no whole number", id="a rank in words"),
        pytest.param("nan:²", "no whole number", id="a digit of another kind"),
        pytest.param("nan:1:soon", "no number of seconds", id="a delay in words"),
        pytest.param("nan:1:-5", "no number of seconds", id="a delay in the past"),
        pytest.param("nan:1:1e9", "up to a week", id="a delay of years"),
        pytest.param("nan:1:2:3", "is not type:rank:seconds", id="too many parts"),
    ],
)
def test_what_is_no_fault(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        read_fault(text)
    assert len(str(refused.value)) < 300


REQUESTS = st.builds(
    FaultRequest,
    st.sampled_from([None, *FAULT_TYPES]),
    st.none() | st.integers(0, 4095),
    st.none() | st.floats(0, 3600),
)


@given(REQUESTS, st.integers(1, 4096), st.text())
def test_ranks_of_one_launch_decide_alike_and_as_asked(request: FaultRequest, world: int, seed: str) -> None:
    fault = decided(request, world, seed)
    assert fault == decided(request, world, seed)
    assert request.type in {None, fault.type}
    assert request.rank in {None, fault.rank}
    assert request.after_s in {None, fault.after_s}
    assert request.rank is not None or fault.rank < world
    assert request.after_s is not None or 10 <= fault.after_s <= 60


@given(st.integers(1, 4096), st.text(), st.integers(0, 4095))
def test_saying_the_rank_changes_nothing_else(world: int, seed: str, rank: int) -> None:
    by_chance, said = decided(FaultRequest(), world, seed), decided(FaultRequest(rank=rank), world, seed)
    assert (by_chance.type, by_chance.after_s) == (said.type, said.after_s)


def test_another_launch_has_another_fault() -> None:
    seeds = [launch_seed("llama", {"MASTER_PORT": str(port)}) for port in range(29500, 29600)]
    assert len({decided(FaultRequest(), 512, seed) for seed in seeds}) > 90


@pytest.mark.parametrize(
    ("environ", "known"),
    [
        pytest.param({}, False, id="a process by itself"),
        pytest.param({"RANK": "3", "LOCAL_RANK": "3"}, False, id="what ranks have each for themselves"),
        pytest.param({"SLURM_JOB_ID": "7", "RANK": "3"}, True, id="a job"),
    ],
)
def test_what_ranks_share(environ: dict[str, str], known: bool) -> None:
    assert (launch_seed("llama", environ) is not None) is known


def test_it_is_told_in_the_words_that_people_look_for() -> None:
    assert str(SimulatedFault("rank_killed", 2, 5.0)) == "FT: Simulating fault: rank_killed; rank to fail: 2"
