"""``--at``: where the jobs of a launcher run, in the launcher's own words."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, TypeVar, cast

import click

from lastbeat.explain.launchers.traits import LAUNCHERS, launcher_traits
from lastbeat.model.text import nearest
from lastbeat_cli import options

F = TypeVar("F", bound=Callable[..., Any])

_OLDER: Final = {
    "ray_address": "address", "head_pod": "head-pod", "namespace": "namespace", "container": "container",
    "context": "context",
}  # fmt: skip
"""Parameter of an option that said this before ``--at`` → the key of ``--at``."""


def launcher(group: str, **more: Any) -> Callable[[F], F]:
    """The option for the kind of launcher."""
    kinds = click.Choice(sorted(LAUNCHERS))
    return options.option("--launcher", "What runs the jobs.", group, type=kinds, **more)


def missing_launcher() -> str:
    """What to say where the command lacks its launcher."""
    return f"--launcher is missing; it is one of {', '.join(sorted(LAUNCHERS))}"


def at(
    group: str, what: str = "Where the jobs run, as --at namespace=ml", kinds: Sequence[str] = LAUNCHERS
) -> Callable[[F], F]:
    """``--at`` for launchers of these ``kinds``, and hidden the older options for the same.

    The command gets ``at``, each ``KEY=VALUE``.
    """

    def add(command: F) -> F:
        @wraps(command)
        def with_older(*, at: tuple[str, ...], **rest: Any) -> object:
            older = [(key, rest.pop(name)) for name, key in _OLDER.items()]
            return command(at=(*(f"{key}={text}" for key, text in older if text is not None), *at), **rest)

        keys = {kind: ", ".join(launcher_traits(kind).reach) for kind in kinds}
        told = "; ".join(f"{kind}: {each}" for kind, each in keys.items() if each)
        said = options.option("--at KEY=VALUE", f"{what}; may be repeated. {told}.", group, multiple=True)
        hidden = options.hidden(*(f"--{name.replace('_', '-')}" for name in _OLDER))
        return cast("F", said(hidden(with_older)))

    return add


def launcher_options(at: Sequence[str], launcher: str, faults: list[str]) -> tuple[str, ...]:
    """The options that say ``at`` to ``launcher``: ``--head-pod=ray-head``. Adds what is wrong to ``faults``."""
    if not launcher:
        return ()
    named = by_option(at, launcher_traits(launcher).reach, launcher, faults)
    return tuple(f"{option}={text}" for option, text in named.items())


def by_option(at: Sequence[str], keys: Mapping[str, str], whose: str, faults: list[str]) -> dict[str, str]:
    """Option of a launcher → its text, the last one of a key. ``keys`` are those of ``whose``, each with its option.

    Adds what is wrong to ``faults``.
    """
    found = {}
    for each in at:
        key, equals, text = each.partition("=")
        if key not in keys:
            known = f"its keys are {', '.join(keys)}" if keys else "it has no keys"
            faults.append(f"--at {key[:60]}: {whose} has no such key{nearest(key, keys)}; {known}")
        elif not equals:
            faults.append(f"--at {key} has no value; write it as --at {key}=…")
        else:
            found[keys[key]] = text
    return found
