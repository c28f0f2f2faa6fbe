"""Frozen dataclasses whose methods are made late behave as the standard library's."""

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from lastbeat.model import data
from lastbeat.model.persisted import Columns
from support.checkout import ROOT
from support.row_by_row import labelled

Decorator = Callable[..., Any]


@data.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@data.dataclass(frozen=True)
class Named:
    name: str


class Labelled(Named):
    """No dataclass."""


def _classes(dataclass: Decorator) -> dict[str, Any]:
    """One class of each kind, by either decorator."""

    @dataclass(frozen=True)
    class Base:
        a: int
        extra: dict[str, int] = field(default_factory=dict, kw_only=True, compare=False, repr=False)

    @dataclass(frozen=True)
    class Derived(Base):
        b: str = "b"
        c: list[int] = field(default_factory=list)
        made: int = field(default=7, init=False)

    @dataclass(frozen=True, slots=True)
    class Slotted:
        a: int
        b: tuple[int, ...] = ()

    @dataclass(frozen=True)
    class Checked:
        a: int

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("a is below 0")

    @dataclass(frozen=True)
    class OwnMethods:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 3

        def __repr__(self) -> str:
            return "own"

    @dataclass(frozen=True)
    class OwnEquality:  # noqa: PLW1641 - so that is what is tested
        a: int

        def __eq__(self, other: object) -> bool:
            return True

    @dataclass(frozen=True, eq=False)
    class Identity:
        a: int

    @dataclass(frozen=True)
    class Empty:
        pass

    return {name: kind for name, kind in locals().items() if inspect.isclass(kind)}


def _assign(value: Any, name: str) -> None:
    setattr(value, name, 1)


def _delete(value: Any, name: str) -> None:
    delattr(value, name)


BEHAVIOUR: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("arguments and defaults", lambda of: vars(of["Derived"](1, "x", extra={"e": 1}))),
    ("a default is made for each instance", lambda of: of["Derived"](1).c is of["Derived"](1).c),
    ("a missing argument is refused", lambda of: of["Derived"]()),
    ("an unknown argument is refused", lambda of: of["Derived"](1, z=1)),
    ("a keyword alone is no position", lambda of: of["Base"](1, {})),
    ("a field that is no argument is refused", lambda of: of["Derived"](1, made=1)),
    ("slots", lambda of: (of["Slotted"].__slots__, hasattr(of["Slotted"](1), "__dict__"))),
    ("a value that passes its check", lambda of: of["Checked"](1).a),
    ("a value that fails its check", lambda of: of["Checked"](-1)),
    ("text", lambda of: repr(of["Derived"](1))),
    ("text of slots", lambda of: repr(of["Slotted"](1, (2, 3)))),
    ("own text", lambda of: repr(of["OwnMethods"](1))),
    ("nothing to show", lambda of: repr(of["Empty"]())),
    ("equal fields", lambda of: of["Derived"](1) == of["Derived"](1)),
    ("another field", lambda of: of["Derived"](1) == of["Derived"](2)),
    ("a field that is not compared", lambda of: of["Base"](1, extra={"e": 1}) == of["Base"](1)),
    ("another class", lambda of: of["Derived"](1) == of["Base"](1)),
    ("own equality", lambda of: of["OwnMethods"](1) == of["OwnMethods"](2)),
    ("equality by identity", lambda of: of["Identity"](1) == of["Identity"](1)),
    ("nothing to compare", lambda of: of["Empty"]() == of["Empty"]()),
    ("hash", lambda of: hash(of["Slotted"](1)) == hash(of["Slotted"](1)) == hash((1, ()))),
    ("hash of what has none", lambda of: hash(of["Derived"](1))),
    ("own hash", lambda of: hash(of["OwnMethods"](1))),
    ("own equality, and a hash of the fields", lambda of: hash(of["OwnEquality"](1)) == hash((1,))),
    ("a field cannot be set", lambda of: _assign(of["Derived"](1), "a")),
    ("nor what is no field", lambda of: _assign(of["Derived"](1), "z")),
    ("a field cannot be deleted", lambda of: _delete(of["Derived"](1), "a")),
    ("a slot cannot be set", lambda of: _assign(of["Slotted"](1), "a")),
    ("fields", lambda of: [(each.name, each.type, each.init) for each in dataclasses.fields(of["Derived"])]),
    ("signature", lambda of: list(inspect.signature(of["Derived"]).parameters)),
    ("a changed copy", lambda of: vars(dataclasses.replace(of["Derived"](1), b="y"))),
    ("as a dictionary", lambda of: dataclasses.asdict(of["Derived"](1, extra={"e": 1}))),
    ("a copy of slots", lambda of: copy.copy(of["Slotted"](1, (2,))).b),
    ("positions in a match", lambda of: [kind.__match_args__ for kind in of.values()]),
]


@pytest.mark.parametrize("act", labelled(BEHAVIOUR))
def test_it_behaves_as_the_standard_library_s(act: Callable[[dict[str, Any]], Any]) -> None:
    assert _what_comes_of(act, data.dataclass) == _what_comes_of(act, dataclasses.dataclass)


def _what_comes_of(act: Callable[[dict[str, Any]], Any], dataclass: Decorator) -> Any:
    try:
        return act(_classes(dataclass))
    except (TypeError, ValueError, AttributeError) as fault:
        # Python 3.10 names a local class in a message by its first name alone.
        return type(fault), str(fault).rpartition(".")[2]


def test_a_subclass_that_is_no_dataclass_has_attributes_of_its_own() -> None:
    labelled: Any = Labelled("one")
    labelled.label = "l"
    with pytest.raises(FrozenInstanceError):
        labelled.name = "two"
    assert (labelled.name, labelled.label) == ("one", "l")


def test_an_instance_can_be_pickled_and_read_where_none_was_made_before() -> None:
    read = (
        "import pickle; from lastbeat.model.persisted import Columns; "
        f"value = pickle.loads({pickle.dumps(Columns(('a',), 1))!r}); "
        "print(value == Columns(('a',), 1), hash(value) == hash((('a',), 1)), value)"
    )
    done = subprocess.run([sys.executable, "-c", read], cwd=ROOT / "core", capture_output=True, text=True, check=True)
    assert done.stdout == "True True Columns(names=('a',), absent=1)\n"
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)


def test_threads_that_make_the_first_instances_at_once_all_get_theirs() -> None:
    for _ in range(50):
        slotted = _classes(data.dataclass)["Slotted"]
        together = threading.Barrier(4)
        made: list[Any] = []

        def make(kind: Any = slotted, ready: threading.Barrier = together, into: list[Any] = made) -> None:
            ready.wait()
            into.append(kind(1, (2,)))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [(each.a, each.b) for each in made] == [(1, (2,))] * 4
        assert len(set(made)) == 1
