"""What is told is what Prometheus' own parsers read, whatever runs are called and whatever their values are."""

import math
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from lastbeat.model.figures import Figures
from lastbeat.model.fleet import PassReport, RunFigures, RunLine
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import FleetView, Row
from lastbeat_cli.metrics import table
from lastbeat_cli.metrics.endpoint import wants_strict
from lastbeat_cli.metrics.exposition import read, render
from lastbeat_cli.metrics.samples import PassMetrics, Sample, of_view
from support.memory import START

FLEET = "s3://bucket/training-runs"
OPEN = "application/openmetrics-text;version=1.0.0"
texts = st.text(max_size=40) | st.sampled_from(
    [
        'a"b',
        "a\\b",
        "a\\",
        "a\nb",
        "\\n",
        '"} 1\nevil 2',
        "# HELP x",
        "#",
        "a,b",
        "{}",
        "=",
        "\ud800",
        "ünï",
        "\u2028",
        " ",
    ]
)
floats = st.none() | st.floats()
figures = st.builds(
    RunFigures,
    line=st.builds(
        RunLine,
        run_id=texts,
        status=st.sampled_from([*Status, Status("PAUSED")]),
        cause=st.none() | texts,
        conditions=st.lists(texts, max_size=4).map(tuple),
        since=st.none() | st.datetimes(timezones=st.just(START.tzinfo)),
        attempt=st.integers(),
    ),
    beat_age_s=floats,
    figures=st.builds(Figures, st.none() | st.integers(), st.none() | st.integers(), floats),
    pending=st.integers(min_value=0),
)


def keyed(samples: Iterable[tuple[str, dict[str, str], float]]) -> dict[tuple[str, frozenset[tuple[str, str]]], str]:
    found = [
        ((name, frozenset(labels.items())), "NaN" if math.isnan(value) else repr(float(value)))
        for name, labels, value in samples
    ]
    assert all(count == 1 for count in Counter(key for key, _ in found).values()), "Prometheus refuses duplicates"
    return dict(found)


def parsed(families: Iterable[Metric]) -> dict[tuple[str, frozenset[tuple[str, str]]], str]:
    return keyed((each.name, each.labels, each.value) for family in families for each in family.samples)


def given_to_it(samples: Iterable[Sample], fleet: str) -> dict[tuple[str, frozenset[tuple[str, str]]], str]:
    return keyed(
        (each.metric.name, dict(zip(("fleet", *each.metric.labels), (fleet, *each.labels), strict=True)), each.value)
        for each in samples
    )


@given(st.lists(figures, max_size=4), st.booleans())
def test_the_official_parsers_read_back_what_was_told(runs: list[RunFigures], paid: bool) -> None:
    metrics = PassMetrics(FLEET if paid else "/runs", 60.0)
    metrics.add(PassReport(START, seconds=0.5, statuses={"RUNNING": len(runs)}, figures=tuple(runs)))
    samples = metrics.samples()
    expected = given_to_it(samples, FLEET)
    plain, _ = render(samples, FLEET)
    assert parsed(text_string_to_metric_families(plain.decode())) == expected
    strict, _ = render(samples, FLEET, strict=True)
    assert parsed(openmetrics.text_string_to_metric_families(strict.decode())) == expected  # type: ignore[no-untyped-call]
    assert given_to_it(read(plain.decode(), FLEET), FLEET) == expected


@given(st.text(max_size=60))
def test_the_fleet_may_lie_anywhere(root: str) -> None:
    samples = of_view(FleetView(root, START), {})
    text, _ = render(samples, root)
    assert len(parsed(text_string_to_metric_families(text.decode()))) == len(samples)
    assert len(read(text.decode(), root)) == len(samples)


FORMS = [
    pytest.param("", "text/plain; version=0.0.4; charset=utf-8", id="who does not say"),
    pytest.param("text/html, */*", "text/plain; version=0.0.4; charset=utf-8", id="a browser"),
    pytest.param(
        OPEN, "application/openmetrics-text; version=1.0.0; charset=utf-8", id="a Prometheus that asks for it"
    ),
    pytest.param("application/openmetrics-text;version=nonsense", "application/openmetrics-text", id="nonsense"),
    pytest.param(",;=,;;q", "text/plain; version=0.0.4; charset=utf-8", id="more nonsense"),
]


@pytest.mark.parametrize(("accept", "kind"), FORMS)
def test_the_form_that_was_asked_for(accept: str, kind: str) -> None:
    text, told = render(of_view(FleetView(FLEET, START), {}), FLEET, strict=wants_strict(accept))
    assert text.startswith(b"# HELP lastbeat_build_info ")
    assert told.startswith(kind)


def everything() -> tuple[Sample, ...]:
    """A sample of each metric at least."""
    run = RunFigures(
        RunLine("run-1", Status.RUNNING, cause='o"o\nm', conditions=("stalled",), since=START),
        1.0,
        Figures(7, 100, math.nan),
        START,
        1,
    )
    metrics = PassMetrics(FLEET, 60.0)
    metrics.add(PassReport(START, seconds=1.0, statuses={"RUNNING (WARNING)": 1}, figures=(run,), requests={"GET": 1}))
    watched = tuple(
        each
        for each in of_view(FleetView(FLEET, START, (Row("x", ShownState(Status.FAILED)),)), {})
        if each.metric is table.WATCHED
    )
    return (*metrics.samples(), *watched)


def test_every_metric_of_the_table_is_told_by_somebody() -> None:
    assert {each.metric for each in everything()} == set(table.METRICS), (
        "everything() gives each metric a sample: give its Figures or report a value of the new one"
    )


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus")
def test_promtool_has_nothing_to_complain_of() -> None:
    text, _ = render(everything(), FLEET)
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_oldest_form_is_what_node_exporter_reads() -> None:
    text, _ = render(everything(), FLEET)
    assert not any(line.endswith("# EOF") for line in text.decode().splitlines())
    samples = [line for line in text.decode().splitlines() if not line.startswith("#")]
    assert samples
    assert all(len(line.rpartition("}")[2].split()) == 1 for line in samples), "with a timestamp it refuses the file"


def test_nothing_is_told_twice_where_two_conditions_look_the_same() -> None:
    line = RunLine("run-1", Status.RUNNING, conditions=("a b", "a  b", "a\tb"))
    metrics = PassMetrics(FLEET, 60.0)
    metrics.add(replace(PassReport(START), figures=(RunFigures(line),)))
    assert sum(each.metric is table.CONDITION for each in metrics.samples()) == 1
