"""What the help of each command lists, and ``--at``."""

from collections.abc import Iterator
from typing import Final

import click
import pytest

from lastbeat_cli import options, reach
from lastbeat_cli.main import lastbeat
from lastbeat_cli.watch.command import command as watch
from support.checkout import ROOT
from support.markdown import Document

MOST_OPTIONS: Final = 16
"""Most options that the help of a command lists, with ``--help``."""


def commands(group: click.Group = lastbeat, path: str = "lastbeat") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, f"{path} {name}")
        else:
            yield f"{path} {name}", found


def test_no_help_lists_many_options() -> None:
    counted = {}
    for path, command in commands():
        context = click.Context(command)
        shown = [each for each in command.get_params(context) if isinstance(each, click.Option) and not each.hidden]
        counted[path] = len(shown)
    assert {path: count for path, count in counted.items() if count > MOST_OPTIONS} == {}


def test_each_option_that_a_help_does_not_list_is_documented() -> None:
    page = Document.read(ROOT / "docs" / "options.md")
    told = {word for code in page.inline_code for word in code.split()}
    hidden = {name for _, command in commands() for name in options.unlisted(command, click.Context(command))}
    assert hidden - told == set()


def test_the_help_of_a_check_has_every_promised_option_with_defaults_codes_and_an_example() -> None:
    told = watch.get_help(click.Context(watch))
    for promised in (
        "--run-id ID", "--once", "--interval SECONDS", "--stale-minutes N", "--bucket B", "--region R",
        "--root URL-OR-DIR", "--slack-webhook U", "--sns-topic ARN", "--json", "--dry-run",
        "[60]", "[10]", "Exit status", "Example:",
    ):  # fmt: skip
        assert promised in told


AT = [
    pytest.param("ray", ("address=http://h:8265/?a=b",), ("--ray-address=http://h:8265/?a=b",), "", id="a URL"),
    pytest.param("ray-pod", ("head-pod=a", "head-pod=b"), ("--head-pod=b",), "", id="the last value counts"),
    pytest.param("slurm", ("namespace=a",), (), "slurm has no such key; it has no keys", id="a launcher without keys"),
    pytest.param(
        "kubernetes",
        ("namspace=ml",),
        (),
        "--at namspace: kubernetes has no such key (did you mean 'namespace'?); its keys are namespace, context",
        id="a mistyped key",
    ),
    pytest.param("kubernetes", ("ml",), (), "its keys are namespace, context", id="a value without its key"),
    pytest.param("ray", ("address",), (), "--at address has no value", id="a key without its value"),
    pytest.param("", ("address=a",), (), "", id="a launcher that is missing is another fault"),
]


@pytest.mark.parametrize(("launcher", "said", "expected", "fault"), AT)
def test_where_jobs_run(launcher: str, said: tuple[str, ...], expected: tuple[str, ...], fault: str) -> None:
    faults: list[str] = []
    assert reach.launcher_options(said, launcher, faults) == expected
    assert len(faults) == bool(fault)
    assert fault in "".join(faults)
