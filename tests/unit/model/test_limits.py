"""Which of a fleet's limits holds for a run: the most specific that says something."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.limits import FIXED, LEARNED, LimitEntry, by_specificity, limits_of
from lastbeat.model.policy import HERE, ITS_OWN, Policy

RUN = "mistral-7b-3"


def of(*entries: LimitEntry, run_id: str = RUN) -> Policy:
    return Policy(stall_s=300.0).of_fleet(limits_of(run_id, by_specificity(entries)))


@pytest.mark.parametrize(
    ("entries", "stale_minutes", "source"),
    [
        pytest.param([], 10, HERE, id="without any the watcher's holds"),
        pytest.param([LimitEntry("llama-*", stale_minutes=3)], 10, HERE, id="or where none covers the run"),
        pytest.param([LimitEntry("MISTRAL-*", stale_minutes=3)], 10, HERE, id="upper and lower case differ"),
        pytest.param([LimitEntry("*", stale_minutes=3)], 3, "fleet limit for *", id="one for every run"),
        pytest.param([LimitEntry("*", stale_minutes=3), LimitEntry("mistral-*", stale_minutes=4)], 4,
                     "fleet limit for mistral-*", id="a glob outranks one for every run"),
        pytest.param([LimitEntry("mistral-7b-*", stale_minutes=5), LimitEntry("mistral-*", stale_minutes=4)], 5,
                     "fleet limit for mistral-7b-*", id="the longer of two globs outranks the other"),
        pytest.param([LimitEntry("*-?b-*", stale_minutes=5), LimitEntry("*7b*", stale_minutes=4)], 5,
                     "fleet limit for *-?b-*", id="what counts are the characters that stand for themselves"),
        pytest.param([LimitEntry(RUN, stale_minutes=6), LimitEntry("mistral-7b-[0-9a-zA-Z]", stale_minutes=5)], 6,
                     f"fleet limit for {RUN}", id="the run's own id outranks every glob"),
        pytest.param([LimitEntry("*", stale_minutes=3), LimitEntry("mistral-*", stall_minutes=4)], 3,
                     "fleet limit for *", id="a glob that does not say leaves it to a wider one"),
    ],
)  # fmt: skip
def test_the_most_specific_holds(entries: Sequence[LimitEntry], stale_minutes: float, source: str) -> None:
    policy = of(*entries)
    assert (policy.stale_s, policy.stale_from) == (60 * stale_minutes, source)


def test_each_limit_is_found_by_itself() -> None:
    policy = of(
        LimitEntry("*", stale_minutes=3, stall_minutes=0, stale=LEARNED),
        LimitEntry("mistral-*", start_minutes=4),
        LimitEntry("mistral-7b-*", stale=FIXED),
    )
    assert (policy.stale_s, policy.stall_s, policy.start_grace_s, policy.learned) == (180.0, None, 240.0, False)
    sources = (policy.stale_from, policy.stall_from, policy.start_from, policy.learned_from)
    assert sources == tuple(f"fleet limit for {glob}" for glob in ("*", "*", "mistral-*", "mistral-7b-*"))


def test_a_run_s_own_limit_outranks_the_fleet_s_and_is_not_learned() -> None:
    policy = of(LimitEntry("*", stale_minutes=3, stall_minutes=4, stale=LEARNED)).of_run(600.0, None)
    assert (policy.stale_s, policy.stale_from, policy.learned) == (600.0, ITS_OWN, False)
    assert (policy.stall_s, policy.stall_from) == (240.0, "fleet limit for *")


ENTRIES = st.lists(
    st.builds(
        LimitEntry,
        runs=st.sampled_from(["*", "m*", "*3", "mistral-*", "mistral-?b-*", "mistral-[0-9]b-3", RUN, "llama-*", "*-*"]),
        stale_minutes=st.none() | st.sampled_from([1.0, 2.0, 3.0]),
        stall_minutes=st.none() | st.sampled_from([0.0, 2.0, 3.0]),
        stale=st.sampled_from([None, LEARNED, FIXED]),
    ),
    unique_by=lambda entry: entry.runs,
)


@given(ENTRIES, st.randoms())
def test_the_order_in_which_they_are_written_does_not_matter(entries: list[LimitEntry], chance: object) -> None:
    shuffled = entries[:]
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert of(*entries) == of(*shuffled)


@given(ENTRIES)
def test_what_holds_was_said_of_the_run_and_the_token_tells_when_it_changes(entries: list[LimitEntry]) -> None:
    found = limits_of(RUN, by_specificity(entries))
    said = {entry.runs: entry for entry in entries}
    assert found.stale is None or said[found.stale[1]].stale_minutes == found.stale[0] / 60
    assert (found.token == 0) == (of(*entries) == Policy(stall_s=300.0))
    without = limits_of(RUN, by_specificity([entry for entry in entries if entry.stale_minutes is None]))
    values = [[each and each[0] for each in (told.stale, told.stall, told.learned)] for told in (found, without)]
    assert (found.token == without.token) == (values[0] == values[1])
