"""Scores by repository: what counts as one, how wide an interval is, and what a catalogue is without some signals."""

import pytest

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.lab.by_repository import (
    SignalUse,
    left_out,
    matched,
    repository_of,
    share,
    shares,
    uses,
    wilson,
)
from lastbeat.lab.scoring import NONE, Case, Diagnosis, Score, ScoredCase, diagnosis_of
from lastbeat.model.signal import Catalogue, Signal


@pytest.mark.parametrize(
    ("source", "framework", "repository"),
    [
        pytest.param("github.com/acme/Runs@9e64:logs/a.out#L2-L9", "slurm", "acme/runs", id="lines of a file"),
        pytest.param("https://github.com/acme/runs (history)", "", "acme/runs", id="an address"),
        pytest.param("local run", "pytorch", "local run (pytorch)", id="no repository: by framework"),
        pytest.param("local run", "slurm/ddp", "local run (slurm/ddp)", id="a framework with a slash is no repository"),
        pytest.param("", "", "told by nobody (any framework)", id="nothing but a provenance"),
    ],
)
def test_where_a_log_comes_from(source: str, framework: str, repository: str) -> None:
    case = Case("a", "a.log", "oom", provenance="told by nobody", source=source, framework=framework)
    assert repository_of(case) == repository


def row(source: str, *, right: bool = True, label: str = "oom", signal: str = "") -> ScoredCase:
    said = label if right else "nccl"
    return ScoredCase(Case(source, "a.log", label, line=1, source=source), Diagnosis(said, 1, signal))


def test_wilson_as_in_textbooks() -> None:
    assert wilson(0.5, 10) == pytest.approx((0.2366, 0.7634), abs=0.0001)
    assert wilson(1.0, 20) == pytest.approx((0.8389, 1.0), abs=0.0001)


def test_nothing_says_nothing() -> None:
    nothing = share([], lambda each: each.right)
    assert (nothing.part, nothing.count, nothing.low, nothing.high) == (0, 0, 0.0, 1.0)


def test_failures_and_healthy_logs_are_told_apart() -> None:
    healthy = ScoredCase(Case("h", "h.log", NONE, source="a/b"), Diagnosis(None))
    told = shares(Score([row("a/b"), row("c/d", right=False), healthy]))
    assert {name: (each.part, each.count) for name, each in told.items()} == {
        "right type": (1, 2),
        "right or acceptable": (1, 2),
        "evidence within 2 lines": (2, 2),
        "healthy, not misread": (1, 1),
    }


def test_the_signals_that_showed_a_cause_those_of_the_fewest_repositories_first() -> None:
    rows = [row("a/b", signal="wide"), row("c/d", signal="wide"), row("c/d", signal="own"), row("c/d")]
    found = uses(Score(rows))
    assert list(found.values()) == [
        SignalUse("own", ("c/d",), ("c/d",)),
        SignalUse("wide", ("a/b", "c/d"), ("a/b", "c/d")),
    ]
    lines = [(rows[0].case, ["wide", "own", "other"]), (rows[1].case, ["wide"])]
    assert [(use.name, use.matched_logs, use.matched_repositories) for use in matched(found, lines)] == [
        ("own", 1, 1),
        ("wide", 2, 2),
    ]


def test_a_repository_is_read_as_if_its_own_signals_had_never_been_written() -> None:
    catalogue = Catalogue(
        "small",
        tuple(
            Signal(name, f"{name}Error: no memory", substring=True, error_type="oom", literals=(f"{name}Error",))
            for name in ("Common", "Rare")
        ),
    )
    texts = {"a/b": "CommonError: no memory", "c/d": "CommonError: no memory", "e/f": "RareError: no memory"}
    cases = [Case(source, "a.log", "oom", line=1, source=source) for source in texts]

    def ask(index: int, smaller: Catalogue) -> Diagnosis:
        return diagnosis_of(explain_text(texts[cases[index].source] + "\n", smaller, "a.log"))

    known = Score([ScoredCase(case, ask(index, catalogue)) for index, case in enumerate(cases)])
    assert [each.diagnosis.signal for each in known.rows] == ["Common", "Common", "Rare"]
    assert [each.right for each in left_out(known, catalogue, ask).rows] == [True, True, False]
