"""``lastbeat routes``, and a watch that follows them."""

import json
from pathlib import Path

from support.cli import LASTBEAT, call
from support.http_sink import HttpSink, http_sink

ROUTES = """\
people: {alice: {slack: U0123ABCD, team: vision}}
routes:
- {name: vision, when: {team: vision}, to: oncall}
- {name: noise, when: {runs: "debug-*"}, to: nobody}
default: {to: webhook}
"""


def lastbeat(folder: Path, *arguments: str, status: int = 0, env: dict[str, str] | None = None) -> str:
    done = call(LASTBEAT, *arguments, cwd=folder, **{"MONITORING_ROOT": "runs", **(env or {})})
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    return done.stdout if status != 3 else done.stderr


def begin(folder: Path, run_id: str, **fields: str) -> None:
    run = folder / "runs" / run_id
    run.mkdir(parents=True)
    (run / "metadata.json").write_text(json.dumps({"run_id": run_id, **fields}))
    (run / "_error").write_text("ValueError: bad")


def hooks(first: HttpSink, second: HttpSink) -> dict[str, str]:
    return {"LASTBEAT_WEBHOOK_URL": first.url, "LASTBEAT_CHANNEL_ONCALL_WEBHOOK_URL": second.url}


def test_alerts_go_where_the_routes_of_the_fleet_say(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "routes.yaml").write_text(ROUTES)
    with http_sink() as usual, http_sink() as oncall:
        settings = hooks(usual, oncall)
        assert "routes.yaml holds for" in lastbeat(tmp_path, "routes", "set", "routes.yaml", env=settings)
        for run_id, owner in (("a", "alice"), ("b", "bob"), ("debug-1", "alice")):
            begin(tmp_path, run_id, owner=owner, **({"team": "nlp"} if run_id.startswith("debug") else {}))
            lastbeat(tmp_path, "watch", "--run-id", run_id, "--once", status=2, env=settings)
        told = [[json.loads(request.body) for request in sink.requests] for sink in (usual, oncall)]
    assert [[alert["run_id"] for alert in alerts] for alerts in told] == [["b"], ["a"]]
    (alert,) = told[1]
    assert (alert["owner"], alert["team"]) == ("alice", "vision")
    assert alert["mentions"] == [{"name": "alice", "slack": "<@U0123ABCD>", "email": None, "pagerduty": None}]
    shown = lastbeat(tmp_path, "show", "debug-1", status=2)
    assert "dropped" in shown
    assert "route noise" in shown
    sweep = lastbeat(tmp_path, "sweep", "--once", status=2, env=settings)
    assert "[alice] ValueError: bad" in sweep


def test_test_says_where_an_alert_would_go_by_what_the_run_says(tmp_path: Path) -> None:
    begin(tmp_path, "a", owner="alice")
    (tmp_path / "routes.yaml").write_text(ROUTES)
    with http_sink() as usual, http_sink() as oncall:
        settings = hooks(usual, oncall)
        asked = ("routes", "test", "--run", "a", "--status", "FAILED", "--json")
        free = json.loads(lastbeat(tmp_path, *asked, env=settings))
        assert (free["routes"], free["channels"]) == ([], ["webhook", "webhook:oncall"])
        found = json.loads(lastbeat(tmp_path, *asked, "--file", "routes.yaml", env=settings))
        assert (usual.requests, oncall.requests) == ([], [])
    assert (found["routes"], found["channels"], found["left_out"]) == (["vision"], ["webhook:oncall"], ["webhook"])
    assert (found["owner"], found["team"], found["severity"], found["dropped"]) == (
        "alice",
        "vision",
        "critical",
        False,
    )
    assert [each["slack"] for each in found["mentions"]] == ["<@U0123ABCD>"]


def test_show_check_and_remove(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "routes.yaml").write_text(ROUTES)
    assert "has no routes" in lastbeat(tmp_path, "routes", "show")
    # Neither destination is set up here.
    told = lastbeat(tmp_path, "routes", "set", "routes.yaml", status=1)
    assert "Note: no channel called oncall is set up here (route vision)" in told
    shown = lastbeat(tmp_path, "routes", "show", status=1)
    assert "vision   team vision → oncall" in shown
    assert "alice: <@U0123ABCD>, team vision" in shown
    found = json.loads(lastbeat(tmp_path, "routes", "check", "--json", status=1))
    assert found["routes"] == ["vision", "noise", "default"]
    assert "warn  routes: no channel called oncall" in lastbeat(tmp_path, "doctor", status=1)
    assert "has no routes any more" in lastbeat(tmp_path, "routes", "remove")
    assert "routes" not in lastbeat(tmp_path, "doctor", status=1)
    (tmp_path / "runs" / "_watchdog" / "routes.yaml").write_text("default: slack\n")
    assert "warn  routes: _watchdog/routes.yaml:1" in lastbeat(tmp_path, "doctor", status=1)
