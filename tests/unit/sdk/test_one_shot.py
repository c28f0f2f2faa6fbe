"""One report from a script, where the job may write and not read."""

from lastbeat.stores.port import DeniedError
from lastbeat.training.sdk import one_shot
from lastbeat.training.sdk.reporter import RunEnvironment
from support.memory import MemoryStore


def test_a_run_completes_where_the_job_may_not_read() -> None:
    store = MemoryStore()
    store.refuse("read", DeniedError("403 AccessDenied"))
    assert one_shot.complete(RunEnvironment(store, "vm-1"), "run-1")
    assert "run-1/_complete" in store.held
