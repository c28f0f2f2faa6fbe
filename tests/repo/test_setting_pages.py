"""``.env.example``, docs/settings.md and docs/stores.md against the settings, which alone say what there is."""

import importlib
from pathlib import Path

from lastbeat.alerts.registry import channels
from lastbeat.model.setting import Parts, Setting
from lastbeat.settings import every_setting, load, table
from lastbeat.stores import registry
from support.setting_pages import EXAMPLE, groups


def test_there_are_no_more_settings_than_a_person_can_choose_from() -> None:
    assert sum(map(len, groups().values())) <= 50, "make it a part of a setting that there is, or a constant"


def test_no_setting_is_left_out() -> None:
    homes = (table, *(importlib.import_module(facts) for facts, _ in registry.KINDS.values()))
    assert {each.name for home in homes for each in vars(home).values() if isinstance(each, Setting)} == {
        each.name for each in every_setting(channels=False)
    }


def test_the_example_copied_as_it_is_changes_nothing(tmp_path: Path) -> None:
    environ = {"HOME": "/home/somebody"}
    before = load({}, environ, tmp_path)
    (tmp_path / ".env").write_bytes(EXAMPLE.read_bytes())
    after = load({}, environ, tmp_path)
    assert (after.root, after.policy, after.state_dir) == (
        before.root,
        before.policy,
        before.state_dir,
    )
    here = every_setting(channels=False)
    assert [after[setting] for setting in here] == [before[setting] for setting in here]
    assert channels(after.values) == channels(before.values) == ()


def test_every_setting_says_what_it_is_in_a_sentence() -> None:
    for setting in every_setting():
        assert setting.help.endswith("."), setting.name
        assert "\n" not in setting.help, setting.name


def test_every_default_and_example_is_a_value_that_the_setting_takes() -> None:
    for setting in every_setting():
        if setting.default:
            setting.parse(setting.default)
        if setting.example and " " not in setting.example:
            setting.parse(setting.example)


def test_the_default_of_a_list_says_the_default_of_each_of_its_parts() -> None:
    lists = {each.name: each for each in every_setting() if isinstance(each.parse, Parts)}
    said = {name: setting.parse(setting.default) for name, setting in lists.items() if setting.default}
    assert len(said) == 4
    assert said == {name: lists[name].parse("") for name in said}
