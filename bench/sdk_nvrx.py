"""nvidia-resiliency-ext: the trainer sends each heartbeat to a monitor process beside it, and waits for its answer."""

import os
from collections.abc import Callable
from pathlib import Path


def monitored(folder: Path) -> tuple[Callable[[int], None], Callable[[], None]]:
    """What sends one heartbeat, and what ends the monitor."""
    import multiprocessing  # noqa: PLC0415 - only where it is measured

    from nvidia_resiliency_ext.fault_tolerance import (  # type: ignore[import-not-found] # noqa: PLC0415 - as above
        FaultToleranceConfig,
        RankMonitorClient,
        RankMonitorServer,
    )

    address = str(folder / f"monitor-{os.getpid()}.socket")
    os.environ |= {"FT_RANK_MONITOR_IPC_SOCKET": address, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    context = multiprocessing.get_context("spawn")
    server = RankMonitorServer.run_in_subprocess(FaultToleranceConfig(), address, mp_ctx=context)
    client = RankMonitorClient()
    client.init_workload_monitoring()

    def close() -> None:
        client.shutdown_workload_monitoring()
        server.terminate()
        server.join()

    return lambda _step: client.send_heartbeat(), close
