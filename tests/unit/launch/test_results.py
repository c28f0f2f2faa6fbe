"""Results are typed, and mappings that any program takes."""

import json

import pytest

from lastbeat.launch.ray import CheckpointHealth, GpuProcess, GpuUtilization, RestartResult, TrainingHealth

GPU = GpuUtilization(1, [95.0], [1.0], [2.0], [GpuProcess(7, "python", None, "pod")], 95.0, healthy=True)
HEALTH = TrainingHealth(healthy=True, gpu=GPU, efa=None, ray=None, checkpoints=CheckpointHealth(120), issues=["a"])


def test_a_field_is_an_item() -> None:
    result = RestartResult(True, 120, 2, "it ended well")

    assert result.success is result["success"] is True
    assert dict(result) == {"success": True, "final_step": 120, "total_retries": 2, "reason": "it ended well"}
    assert result == dict(result)
    assert (len(result), "final_step" in result, result.get("steps", 7)) == (4, True, 7)
    with pytest.raises(KeyError):
        result["steps"]
    with pytest.raises(KeyError):
        result["keys"]


def test_what_a_result_holds_comes_out_as_plain_data() -> None:
    assert HEALTH["gpu"]["processes"][0]["pid"] == 7
    assert HEALTH["checkpoints"]["latest_step"] == 120
    assert json.loads(json.dumps(dict(HEALTH))) == dict(HEALTH)


def test_a_result_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        HEALTH.healthy = False  # type: ignore[misc]
