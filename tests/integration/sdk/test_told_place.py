"""Training says where it reports to, and as which run."""

import re

import pytest

from support.training import Site

TOLD = re.compile(r"^(?:.*)lastbeat: reporting to (\S+) as run (\S+); see it with: lastbeat show (\S+)$", re.MULTILINE)


def _said(site: Site) -> str:
    return (site.folder / "training.log").read_text(encoding="utf-8")


def test_a_run_without_an_id_has_one_and_says_it_once(directory: Site) -> None:
    directory.train("import lastbeat\nwith lastbeat.run() as run:\n    run.step(1)\n    print(run.run_id)\n")
    ((url, name, shown),) = TOLD.findall(_said(directory))
    assert (url, shown) == (directory.root, name)
    assert re.fullmatch(r"train-\d{8}-\d{6}-[\w.-]+", name)
    assert f"\n{name}\n" in "\n" + directory.said()
    assert directory.look(name)["status"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("before", "env", "count"),
    [
        pytest.param("", {}, 1, id="nobody set up logging"),
        pytest.param("import logging; logging.basicConfig(level='INFO')", {}, 1, id="logging of everything"),
        pytest.param("", {"LASTBEAT_OWN_LOG": "error"}, 0, id="lastbeat says less"),
        pytest.param("", {"RANK": "1", "WORLD_SIZE": "2"}, 0, id="rank 0 alone says it"),
    ],
)
def test_the_line_is_there_once(directory: Site, before: str, env: dict[str, str], count: int) -> None:
    directory.train(f"{before}\nimport lastbeat\nwith lastbeat.run('run-1') as run:\n    run.step(1)\n", **env)
    assert _said(directory).count("lastbeat: reporting to ") == count


def test_ranks_that_cannot_agree_train_on_and_are_told_why(directory: Site) -> None:
    script = "import lastbeat\nwith lastbeat.run(rank=1, world_size=2) as run:\n    run.step(1)\nprint('trained')\n"
    trained = directory.train(script)
    assert trained.exit == 0
    assert "trained" in trained.said
    assert "cannot agree on a run id" in trained.said
