"""Log files of this machine, by path and by pattern."""

import os
import time
from pathlib import Path

import pytest

from lastbeat.stores.port import DeniedError
from lastbeat.watch.observe.local_logs import LocalLog, local_log, local_logs
from support.there import there


def _names(folder: Path, *patterns: str) -> list[str]:
    logs, *_ = local_logs(str(folder / pattern) for pattern in patterns)
    return sorted(Path(log.name).name for log in logs)


def _put(path: Path, text: str = "x\n", *, age_s: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        pytest.param(["train.log"], ["train.log"], id="a path"),
        pytest.param(["nothing.log"], [], id="a path of nothing"),
        pytest.param(["nothing\0.log", "train.log/x", "x" * 5000], [], id="paths that can be none"),
        pytest.param(["rank*.log"], ["rank0.log", "rank1.log"], id="a pattern"),
        pytest.param(["rank?.log", "train.log", "rank0.log"], ["rank0.log", "rank1.log", "train.log"],
                     id="several, each file once"),
        pytest.param(["[train].log"], ["[train].log"], id="a path that looks like a pattern and is there"),
        pytest.param(["slurm-%j.out"], ["slurm-12.out"], id="Slurm's job: the one that was written last"),
        pytest.param(["job_%A_%a-%t.log"], ["job_5_1-0.log", "job_5_1-1.log"], id="of an array, by task"),
        pytest.param(["job_%A_1-%3t.log"], ["job_5_1-0.log", "job_5_1-1.log"], id="with a width"),
        pytest.param(["%x.log"], ["[train].log", "job_4_1-0.log", "job_5_1-0.log", "job_5_1-1.log", "rank0.log",
                                  "rank1.log", "train.log"], id="by name, of no job in particular"),
        pytest.param(["*"], ["[train].log", "job_4_1-0.log", "job_5_1-0.log", "job_5_1-1.log", "link.txt", "rank0.log",
                             "rank1.log", "slurm-11.out", "slurm-12.out", "train.log"],
                     id="no folder, no pipe and no link that leads nowhere"),
    ],
)  # fmt: skip
def test_patterns(tmp_path: Path, patterns: list[str], expected: list[str]) -> None:
    for name in ("train.log", "rank0.log", "rank1.log", "[train].log", "slurm-12.out"):
        _put(tmp_path / name)
    _put(tmp_path / "slurm-11.out", age_s=30)
    _put(tmp_path / "job_5_1-0.log", age_s=20)
    _put(tmp_path / "job_5_1-1.log", age_s=10)
    _put(tmp_path / "job_4_1-0.log", age_s=40)
    (tmp_path / "folder.log").mkdir()
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "dead.log").symlink_to("nowhere")
    (tmp_path / "link.txt").symlink_to("train.log")
    assert _names(tmp_path, *patterns) == expected


def test_what_matches_nothing_and_what_is_left_out_is_said(tmp_path: Path) -> None:
    for number in range(5):
        _put(tmp_path / f"rank{number}.log")
    logs, notes, _ = local_logs([str(tmp_path / "rank*.log"), str(tmp_path / "gone.log")], most=3)
    assert [log.rank for log in logs] == [0, 1, 2]
    assert [words in note for words, note in zip(("gone.log", "2 more"), notes, strict=True)] == [True, True]


def _log(path: Path) -> LocalLog:
    return there(local_log(path))


def test_a_rotated_file_is_found_under_its_new_name(tmp_path: Path) -> None:
    before = _log(_put(tmp_path / "train.log", "old"))
    assert before.renamed(before.version) is None
    before.path.rename(tmp_path / "train.log.1")
    now = _log(_put(tmp_path / "train.log", "new"))
    former = there(now.renamed(before.version))
    assert former.name.endswith("train.log.1")
    assert [log.name for log in now.beside()] == [former.name]
    former.path.unlink()
    assert now.renamed(before.version) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    log = _log(_put(tmp_path / "train.log"))
    log.path.chmod(0)
    with pytest.raises(DeniedError, match="not allowed"):
        log.read(0, 10)


def test_a_folder_that_is_no_folder_any_more_is_no_error(tmp_path: Path) -> None:
    log = _log(_put(tmp_path / "a" / "train.log"))
    log.path.unlink()
    log.path.parent.rmdir()
    _put(tmp_path / "a")
    assert log.read(0, 10) is None
    assert log.renamed("1-2-3") is None
