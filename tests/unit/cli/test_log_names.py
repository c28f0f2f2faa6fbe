"""Which files of a folder are logs, and whose."""

import pytest

from lastbeat_cli.explain.log_sources import MOST_FILES, chosen, rank_of

RANKS = [
    pytest.param("rank3.log", 3, id="a rank in the name"),
    pytest.param("logs/train-rank_12.out.gz", 12, id="behind other words, packed"),
    pytest.param("Rank-0.txt", 0, id="upper case"),
    pytest.param("rank1/node-rank2.log", 2, id="the file's name outranks the folder's"),
    pytest.param("out/none_ab12/attempt_0/7/stderr.log", 7, id="torchrun's folders are ranks"),
    pytest.param("my-run/ranks/5.error", 5, id="what another rank said of its end"),
    pytest.param("frank3.log", None, id="a name that merely ends in rank"),
    pytest.param("4711.out", None, id="a number alone is a job's"),
    pytest.param("slurm-4711_3.out", None, id="an array's task is no rank"),
    pytest.param("train.log", None, id="no rank"),
]


@pytest.mark.parametrize(("path", "rank"), RANKS)
def test_the_rank_that_a_path_tells(path: str, rank: int | None) -> None:
    assert rank_of(path) == rank


FOLDERS = [
    pytest.param(["b.log", "a.out", "model.pt", "c.err"], ["a.out", "b.log", "c.err"], [], id="logs by their endings"),
    pytest.param(["rank10.log", "rank9.log"], ["rank9.log", "rank10.log"], [], id="ranks in their order"),
    pytest.param(["job.o4711", "job.e4711-2"], ["job.e4711-2", "job.o4711"], [], id="a batch system's own names"),
    pytest.param(["requirements.txt", "vocab.txt", "README.txt", ".hidden.log", ".git/x.log"], [], [], id="no logs"),
    pytest.param(
        ["_error", "_complete", "metadata.json", "logs/train.txt", "logs/stacks.txt", "ranks/1.error", "ranks/1.json"],
        ["_error", "logs/train.txt", "ranks/1.error"],
        [],
        id="of a run's folder what training said",
    ),
    pytest.param(["old/_error"], [], [], id="another run's sentinel is not this folder's"),
    pytest.param(
        ["train.log", "train.log.1", "train.log-20260101.gz"],
        ["train.log"],
        ["2 older parts of rotated logs"],
        id="older parts of a rotated log are named and left out",
    ),
    pytest.param(
        [
            "j/attempt_0/0/stderr.log",
            "j/attempt_10/0/stderr.log",
            "j/attempt_9/0/stderr.log",
            "k/attempt_0/0/stdout.log",
        ],
        ["j/attempt_10/0/stderr.log", "k/attempt_0/0/stdout.log"],
        ["2 logs of earlier attempts"],
        id="the last attempt of each job",
    ),
]


@pytest.mark.parametrize(("paths", "logs", "told"), FOLDERS)
def test_the_logs_of_a_folder(paths: list[str], logs: list[str], told: list[str]) -> None:
    notes: list[str] = []
    assert chosen(paths, notes.append) == logs
    assert len(notes) == len(told)
    assert all(note.startswith(start) for note, start in zip(notes, told, strict=True))


def test_more_logs_than_any_training_has_ranks_are_told() -> None:
    notes: list[str] = []
    assert len(chosen([f"{index}.log" for index in range(MOST_FILES + 5)], notes.append)) == MOST_FILES
    assert "4,101 logs" in notes[0]
