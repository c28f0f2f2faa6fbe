"""``.env.example`` lists every setting, and is a file that lastbeat reads as it is."""

import re
from pathlib import Path

from lastbeat.settings import load, table

EXAMPLE = Path(__file__).parents[2] / ".env.example"


def documented() -> list[tuple[str, str, str]]:
    """Name, default and sentence of each block."""
    blocks = EXAMPLE.read_text(encoding="utf-8").split("\n\n")[1:]
    found = []
    for block in blocks:
        *comment, assignment = block.strip().split("\n")
        match = re.fullmatch(r"([A-Z_]+)=(.*)", assignment)
        assert match, f"no assignment ends the block {block!r}"
        found.append((match[1], match[2], " ".join(line.removeprefix("# ") for line in comment)))
    return found


def test_it_has_the_name_default_and_sentence_of_every_setting_in_their_order() -> None:
    assert documented() == [(setting.name, setting.default, setting.help) for setting in table()]


def test_copied_as_it_is_it_changes_nothing(tmp_path: Path) -> None:
    environ = {"HOME": "/home/somebody"}
    before = load({}, environ, tmp_path)
    (tmp_path / ".env").write_bytes(EXAMPLE.read_bytes())
    after = load({}, environ, tmp_path)
    assert (after.root, after.region, after.policy, after.state_dir) == (
        before.root,
        before.region,
        before.policy,
        before.state_dir,
    )
    assert after.values == before.values


def test_every_setting_says_what_it_is_in_one_sentence() -> None:
    for setting in table():
        assert setting.help.endswith("."), setting.name
        assert "\n" not in setting.help, setting.name


def test_every_default_is_a_value_that_the_setting_takes() -> None:
    for setting in table():
        if setting.default:
            setting.parse(setting.default)
