"""One report from a script, where the job may write and not read."""

from lastbeat.stores.port import DeniedError
from lastbeat.training.sdk import one_shot
from support.memory import MemoryStore
from support.reporting import environment


def test_a_run_completes_where_the_job_may_not_read() -> None:
    store = MemoryStore()
    store.refuse("read", DeniedError("403 AccessDenied"))
    assert one_shot.complete(environment(store), "run-1")
    assert "run-1/_complete" in store.held
