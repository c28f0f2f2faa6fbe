"""``--at``: where the jobs of a launcher run, in the launcher's own words."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar, cast

import click

from lastbeat.explain.launchers.traits import LAUNCHERS, launcher_traits
from lastbeat.model.spelling import nearest
from lastbeat_cli import options

F = TypeVar("F", bound=Callable[..., Any])

_OLDER: Final = ("--ray-address", "--head-pod", "--namespace", "--container", "--context")
"""Options that said this before ``--at``. Launchers take them under the same names."""


class Reach(NamedTuple):
    """Where jobs run, as the user says it."""

    older: Mapping[str, str]
    """Option of a launcher → its text, by the older options."""
    said: tuple[str, ...]
    """The values of ``--at``, each ``KEY=VALUE``."""

    def options(self, launcher: str, faults: list[str]) -> tuple[str, ...]:
        """The options that say it to ``launcher``: ``--head-pod=ray-head``. Adds what is wrong to ``faults``."""
        keys = launcher_traits(launcher).reach
        named = self.named(keys, launcher, faults) if launcher else self.older
        return tuple(f"{option}={text}" for option, text in named.items())

    def named(self, keys: Mapping[str, str], whose: str, faults: list[str]) -> dict[str, str]:
        """Option of a launcher → its text. ``keys`` are those of ``whose``, each with its option.

        Adds what is wrong to ``faults``.
        """
        found = dict(self.older)
        for each in self.said:
            key, equals, text = each.partition("=")
            if key in keys and equals:
                found[keys[key]] = text
            elif key in keys:
                faults.append(f"--at {key} has no value; write it as --at {key}=…")
            else:
                known = f"its keys are {', '.join(keys)}" if keys else "it has no keys"
                faults.append(f"--at {key[:60]}: {whose} has no such key{nearest(key, keys)}; {known}")
        return found


def launcher(group: str, **more: Any) -> Callable[[F], F]:
    """The option for the kind of launcher."""
    kinds = click.Choice(sorted(LAUNCHERS))
    return options.option("--launcher", type=kinds, group=group, help="What runs the jobs.", **more)


def missing_launcher() -> str:
    """What to say where the command lacks its launcher."""
    return f"--launcher is missing; it is one of {', '.join(sorted(LAUNCHERS))}"


def at(
    group: str, what: str = "Where the jobs run, as --at namespace=ml", kinds: Sequence[str] = LAUNCHERS
) -> Callable[[F], F]:
    """``--at`` for launchers of these ``kinds``, and hidden the older options for the same.

    The command gets ``at``, a :class:`Reach`.
    """

    def add(command: F) -> F:
        @wraps(command)
        def with_reach(*, at: tuple[str, ...], **rest: Any) -> object:
            older = {name: rest.pop(name.strip("-").replace("-", "_")) for name in _OLDER}
            return command(at=Reach({name: text for name, text in older.items() if text is not None}, at), **rest)

        keys = {kind: ", ".join(launcher_traits(kind).reach) for kind in kinds}
        told = "; ".join(f"{kind}: {each}" for kind, each in keys.items() if each)
        said = options.option(
            "--at", multiple=True, metavar="KEY=VALUE", group=group, help=f"{what}; may be repeated. {told}."
        )
        return cast("F", said(options.hidden(*_OLDER)(with_reach)))

    return add
