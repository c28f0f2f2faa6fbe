"""docs/metrics.md, its alert rules and the Grafana dashboard against the metrics that there are."""

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from lastbeat_cli.metrics.samples import STATUSES
from lastbeat_cli.metrics.table import FLEET, METRICS
from support.checkout import ROOT
from support.markdown import Document
from support.promql import faults

PAGE = ROOT / "docs" / "metrics.md"
GRAFANA: dict[str, Any] = json.loads((ROOT / "docs" / "grafana" / "lastbeat.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = GRAFANA["panels"]
QUERIES = [(f"{panel['title']} {each['refId']}", each["expr"]) for panel in PANELS for each in panel["targets"]]
VARIABLES: dict[str, dict[str, Any]] = {each["name"]: each for each in GRAFANA["templating"]["list"]}


def rules() -> str:
    (found,) = [block.text for block in Document.read(PAGE).blocks if block.text.startswith("groups:")]
    return found


RULES = [(rule["alert"], rule) for group in yaml.safe_load(rules())["groups"] for rule in group["rules"]]


def test_the_page_lists_every_metric_as_it_is() -> None:
    rows = re.findall(r"^\| `(lastbeat_\w+)` \| (.*?) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    told = [(name, tuple(re.findall(r"`(\w+)`", labels)), text) for name, labels, text in rows]
    assert told == [(metric.name, metric.labels, metric.help) for metric in METRICS], (
        "give docs/metrics.md a row for each of METRICS in cli/lastbeat_cli/metrics/table.py, in their order"
    )


def test_every_metric_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"lastbeat_[a-z_]+", PAGE.read_text(encoding="utf-8")))
    assert named - {metric.name for metric in METRICS} == set()


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_prometheus_conventions(metric: Any) -> None:
    assert re.fullmatch(r"lastbeat(_[a-z]+)+", metric.name)
    assert not re.search(r"minutes|hours|days|milli|micro|percent|gauge|counter", metric.name), (
        "base units, and no types"
    )
    if re.search(r"timestamp|age|duration|interval", metric.name):
        assert metric.name.endswith("_seconds")
    assert len(set(metric.labels)) == len(metric.labels)
    assert FLEET not in metric.labels
    assert metric.help.endswith(".")


@pytest.mark.parametrize(("name", "rule"), RULES, ids=[name for name, _ in RULES])
def test_an_alert_rule_asks_for_what_there_is(name: str, rule: dict[str, Any]) -> None:
    assert faults(rule["expr"]) == []
    labels = {label for metric in METRICS for label in metric.labels if metric.name in rule["expr"]} | {FLEET}
    assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= labels
    assert set(re.findall(r"[A-Z]{2,}(?:_[A-Z]+)*", rule["expr"])) <= set(STATUSES)


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus"
)


FLEET_ONE = 'fleet="s3://b/runs"'
SEEN = {"series": f"lastbeat_fleet_seen_timestamp_seconds{{{FLEET_ONE}}}", "values": "0+60x200"}
UP = {"series": f"lastbeat_up{{{FLEET_ONE}}}", "values": "1x200"}
FAILED = f'lastbeat_run_status{{{FLEET_ONE}, run_id="r", status="FAILED", cause="oom"}}'
FIRES: list[tuple[str, list[dict[str, str]], str, set[str]]] = [
    ("all is well", [UP, SEEN], "60m", set()),
    ("nobody tells anything", [], "60m", {"LastbeatIsGone"}),
    ("the fleet is not seen any more, and what failed before that goes on being told",
     [{**UP, "values": "1x10 0x190"}, {**SEEN, "values": "0+60x10 600x190"}, {"series": FAILED, "values": "1x200"}],
     "60m", {"LastbeatIsBlind", "TrainingFailed"}),
    ("a run failed", [UP, SEEN, {"series": FAILED, "values": "_x10 1x190"}], "12m", {"TrainingFailed"}),
    ("one that runs is no failure", [UP, SEEN, {"series": FAILED.replace("FAILED", "RUNNING"), "values": "1x200"}],
     "60m", set()),
    ("alerts that go out in time",
     [UP, SEEN, {"series": f"lastbeat_alert_deliveries_pending{{{FLEET_ONE}}}", "values": "0x10 3x10 0x180"}], "60m",
     set()),
    ("alerts that do not",
     [UP, SEEN, {"series": f"lastbeat_alert_deliveries_pending{{{FLEET_ONE}}}", "values": "0x10 3x190"}], "60m",
     {"LastbeatAlertsWait"}),
    (
        "a loss that is no number",
        [
            UP,
            SEEN,
            {"series": f'lastbeat_run_condition{{{FLEET_ONE}, run_id="r", condition="loss_nan"}}', "values": "1x200"},
        ],
        "5m",
        {"TrainingDiverges"},
    ),
    ("a watching that costs two cents a minute",
     [UP, SEEN, {"series": f"lastbeat_store_cost_dollars_total{{{FLEET_ONE}}}", "values": "0+0.02x200"}], "120m",
     {"LastbeatCostsMore"}),
]  # fmt: skip


@needs_promtool
@pytest.mark.parametrize(("series", "at", "alerts"), [pytest.param(s, at, a, id=says) for says, s, at, a in FIRES])
def test_the_alert_rules_fire_when_they_should(
    tmp_path: Path, series: list[dict[str, str]], at: str, alerts: set[str]
) -> None:
    (tmp_path / "rules.yaml").write_text(rules(), encoding="utf-8")
    (expected, unexpected) = ([name for name, _ in RULES if (name in alerts) is fires] for fires in (True, False))
    query = "count by (alertname) (ALERTS{alertstate='firing'})"
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "promql_expr_test": [
                    {
                        "expr": query,
                        "eval_time": at,
                        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected],
                    }
                ],
                "alert_rule_test": [{"eval_time": at, "alertname": name, "exp_alerts": []} for name in unexpected],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test), encoding="utf-8")
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "expression"), QUERIES, ids=[name for name, _ in QUERIES])
def test_a_query_of_the_dashboard_asks_for_what_there_is(name: str, expression: str) -> None:
    assert faults(expression) == []
    used = set(re.findall(r"\$(\w+)", expression))
    assert {each for each in used if not each.startswith("__")} <= set(VARIABLES)
    assert set(re.findall(r"\b[A-Z]{2,}(?:_[A-Z]+)*\b", expression)) <= set(STATUSES)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_a_panel_is_whole(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    assert panel["description"].endswith(".")
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert all(each["datasource"] == panel["datasource"] for each in panel["targets"])
    assert len({each["refId"] for each in panel["targets"]}) == len(panel["targets"])
    legends = {name for each in panel["targets"] for name in re.findall(r"\{\{(\w+)\}\}", each.get("legendFormat", ""))}
    known = {
        label
        for metric in METRICS
        for label in metric.labels
        if any(metric.name in each["expr"] for each in panel["targets"])
    }
    assert legends <= known | {FLEET}


def test_no_two_panels_have_one_number_or_one_place() -> None:
    assert max(Counter(panel["id"] for panel in PANELS).values()) == 1
    cells = Counter(
        (x, y)
        for panel in PANELS
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    )
    assert max(cells.values()) == 1
    assert max(x for x, _ in cells) < 24


def test_its_variables_ask_for_labels_that_there_are() -> None:
    for variable in VARIABLES.values():
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert found is not None
            assert faults(f"sum by ({found[2]}) ({found[1]})") == []
            assert variable["definition"] == variable["query"]["query"]


def test_nothing_in_it_is_of_the_machine_it_was_made_on() -> None:
    text = json.dumps(GRAFANA)
    assert GRAFANA.get("id") is None
    assert set(re.findall(r'"uid": "([^"]+)"', text)) == {"${datasource}", "lastbeat"}
    assert "http" not in text
