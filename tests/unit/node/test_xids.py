"""Xids in the kernel's log: which lines are ones, and which of them are news."""

import os
from pathlib import Path

import pytest

from lastbeat.training.node.gpus import KernelLog, XidLine, short_bus, xid_in

LINE = "4,1042,9000000,-;NVRM: Xid (PCI:0000:3B:00): 79, pid=1234, name=python, GPU has fallen off the bus."

LINES = [
    pytest.param(LINE, XidLine(79, "0000:3b:00", 9.0), id="as /dev/kmsg has it"),
    pytest.param("[Mon] NVRM: Xid (PCI:0000:c8:00.0): 48, pid='<unknown>'", XidLine(48, "0000:c8:00", 0.0),
                 id="without a time it is as old as the machine"),
    pytest.param("4,1,2,-;NVRM: GPU at PCI:0000:3b:00: GPU-123", None, id="another line of the driver's"),
    pytest.param(f"4,1,{'9' * 30},-;NVRM: Xid (PCI:0:1f): 79", XidLine(79, "0:1f", 0.0),
                 id="a time that no clock ever told"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_a_line(line: str, expected: XidLine | None) -> None:
    assert xid_in(line) == expected


def test_the_driver_and_the_kernel_name_a_gpu_alike() -> None:
    assert short_bus("00000000:3B:00.0") == short_bus("0000:3b:00") == "0000:3b:00"


def test_what_was_there_before_is_told_only_to_who_asks_for_the_past(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(f"{LINE}\nrubbish\n", encoding="utf-8")
    past, news = KernelLog(path, past=True), KernelLog(path)
    assert [line.number for line in past.news()] == [79]
    assert (past.news(), news.news()) == ([], [])

    with path.open("a", encoding="utf-8") as file:
        file.write(LINE.replace("79", "48") + "\n")
    assert [line.number for line in news.news()] == [48]
    past.close()
    news.close()


def test_a_log_that_nobody_may_read_has_no_xids(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "kmsg")
    assert (log.readable, log.news()) == (False, [])
    log.close()


def test_a_log_that_never_ends_is_waited_for_by_nobody(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    log = KernelLog(path, past=True)
    assert log.news() == []
    log.close()
    os.close(writer)
