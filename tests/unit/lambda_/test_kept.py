"""What an execution environment keeps is what its settings were when it was made, and not longer than they last."""

from pathlib import Path

import pytest

from lastbeat_lambda.environment import ExecutionEnvironment


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ExecutionEnvironment:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MONITORING_ROOT", str(tmp_path))
    return ExecutionEnvironment.made()


def test_what_did_not_change_is_kept(warm: ExecutionEnvironment) -> None:
    assert not warm.outdated()
    assert warm.sweep_of(None) is warm.sweep_of(None)


@pytest.mark.parametrize("name", ["MONITORING_ROOT", "STALE_MINUTES", "AWS_ENDPOINT_URL", "LASTBEAT_PING_URL"])
def test_other_settings_make_everything_anew(
    warm: ExecutionEnvironment, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "7")
    assert warm.outdated()


def test_what_has_no_bearing_on_it_changes_nothing(warm: ExecutionEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793")
    assert not warm.outdated()
