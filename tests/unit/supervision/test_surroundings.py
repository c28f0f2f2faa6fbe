"""The environment of a run is known to the jobs of that very beginning, and to nobody else."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from lastbeat.jobs.supervision import surroundings

AT = datetime(2026, 1, 1, 12, 0, 0, 7, tzinfo=timezone.utc)
VARIABLES = {"PATH": "/bin", "X": "a b\n\udcff"}


def test_it_is_what_was_kept_and_its_users_alone(tmp_path: Path) -> None:
    surroundings.keep(tmp_path, "s3://b/runs", "run", AT, VARIABLES)
    assert surroundings.kept(tmp_path, "s3://b/runs", "run", AT) == VARIABLES
    (file,) = (tmp_path / "environments").iterdir()
    assert (file.stat().st_mode & 0o077, file.parent.stat().st_mode & 0o077) == (0, 0)
    surroundings.keep(tmp_path, "s3://b/runs", "run", AT, {"PATH": "/usr/bin"})
    assert surroundings.kept(tmp_path, "s3://b/runs", "run", AT) == {"PATH": "/usr/bin"}
    surroundings.forget(tmp_path, "s3://b/runs", "run")
    surroundings.forget(tmp_path, "s3://b/runs", "run")
    assert list((tmp_path / "environments").iterdir()) == []


@pytest.mark.parametrize(
    ("root", "run_id", "begun_at"),
    [
        ("s3://b/others", "run", AT),
        ("s3://b/runs", "run-2", AT),
        ("s3://b/runs", "run", AT + timedelta(seconds=1)),
        ("s3://b/runs", "run", None),
    ],
    ids=["another fleet", "another run", "another beginning", "nobody knows when"],
)
def test_it_is_nobody_elses(tmp_path: Path, root: str, run_id: str, begun_at: datetime | None) -> None:
    surroundings.keep(tmp_path, "s3://b/runs", "run", AT, VARIABLES)
    assert surroundings.kept(tmp_path, root, run_id, begun_at) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"begun_at": 1}', '{"begun_at": "2026-01-01T12:00:00.000007+00:00"}'])
def test_what_cannot_be_read_is_not_known(tmp_path: Path, text: str) -> None:
    surroundings.keep(tmp_path, "/runs", "run", AT, VARIABLES)
    next((tmp_path / "environments").iterdir()).write_text(text, encoding="utf-8")
    assert surroundings.kept(tmp_path, "/runs", "run", AT) is None
