"""The codec gives back what it was given, refuses what is damaged by name, and keeps what it does not know."""

import copy
import json
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timezone
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.codec import DamagedError, NewerError, codec
from lastbeat.model.data import dataclass
from lastbeat.model.persisted import FLAT, TRANSIENT, AnyFloat, Base64, Columns, Form, Persisted, UnixTime, part

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Wheel(Persisted):
    """Kept as a row."""

    FORM: ClassVar = Form.ROW

    colour: Colour
    spokes: int = 32
    told: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Bell(Persisted):
    name: str
    colour: Colour = Colour.RED


@dataclass(frozen=True)
class Owner:
    """Kept as it is, without what others know of it."""

    FORM: ClassVar = Form.SPARSE

    name: str = ""
    born: datetime | None = None
    raw: bytes = b""
    level: Literal["", "high"] = ""


@dataclass(frozen=True)
class Bike(Persisted):
    name: str
    built: datetime | None = None
    weight: float = 0.0
    loss: AnyFloat | None = None
    gears: tuple[float, float] | None = None
    light: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    wheels: tuple[Wheel, ...] = ()
    bells: tuple[Bell, ...] = ()
    by_place: Mapping[str, Bell] = field(default_factory=dict)
    owner: Owner = field(default_factory=Owner)
    main: Bell = field(default_factory=lambda: Bell("main"))


@dataclass(frozen=True)
class Tandem(Persisted):
    bell: Bell = field(metadata=FLAT)
    seats: int = 2


@dataclass(frozen=True)
class Trailer(Persisted):
    place: str
    bell: Bell | None = field(default=None, metadata=FLAT)
    seats: int = 2


@dataclass
class Lock:
    """Knows which of its values go together."""

    digits: int = 4
    code: str = "0000"
    key: Base64 = b""

    def __post_init__(self) -> None:
        if len(self.code) != self.digits:
            raise ValueError(f"a code of {len(self.code)} for {self.digits} digits")


FULL = Bike(
    "trek", NOON, 9.5, float("inf"), (1.0, 2.5), True, {"a": "b"}, (Wheel(Colour.BLUE, 28, {3: 4}),), (Bell("ding"),),
    {"left": Bell("dong", Colour.BLUE)}, Owner("ana", NOON, b"\x00\xff", "high"), Bell("big"),
)  # fmt: skip
DOCUMENT: dict[str, Any] = {
    "name": "trek",
    "built": "2026-01-01T12:00:00Z",
    "weight": 9.5,
    "loss": "Infinity",
    "gears": [1.0, 2.5],
    "light": True,
    "tags": {"a": "b"},
    "wheels": [["blue", 28, [[3, 4]]]],
    "bells": [{"name": "ding", "colour": "red"}],
    "by_place": {"left": {"name": "dong", "colour": "blue"}},
    "owner": {"name": "ana", "born": "2026-01-01T12:00:00Z", "raw": "\x00\xff", "level": "high"},
    "main": {"name": "big", "colour": "red"},
}


def changed(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """``DOCUMENT`` with another value at ``path``; None takes it away."""
    document = copy.deepcopy(DOCUMENT)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


def test_every_kind_of_field_is_written_plainly_and_read_again() -> None:
    assert codec(Bike).document(FULL) == DOCUMENT
    assert codec(Bike).read(json.loads(json.dumps(DOCUMENT))) == FULL


def test_a_field_that_is_missing_has_its_default() -> None:
    assert codec(Bike).read({"name": "trek"}) == Bike("trek")
    assert codec(Owner).read({}) == Owner()
    assert codec(Wheel).read(["red"]) == Wheel(Colour.RED)


def test_a_sparse_form_leaves_out_what_is_usual() -> None:
    assert codec(Owner).document(Owner(level="high")) == {"level": "high"}


def test_a_flat_part_stands_among_the_fields_of_its_parent() -> None:
    written = {"name": "ding", "colour": "red", "seats": 3}
    assert codec(Tandem).document(Tandem(Bell("ding"), 3)) == written
    assert codec(Tandem).read(written) == Tandem(Bell("ding"), 3)
    assert codec(Tandem).document(codec(Tandem).read({**written, "new": 1})) == {**written, "new": 1}


@pytest.mark.parametrize(
    ("trailer", "written"),
    [
        pytest.param(Trailer("back", Bell("ding")), {"place": "back", "name": "ding", "colour": "red", "seats": 2},
                     id="its fields in its place"),
        pytest.param(Trailer("back"), {"place": "back", "name": None, "colour": "red", "seats": 2},
                     id="null for what it cannot be without, and defaults"),
    ],
)  # fmt: skip
def test_a_flat_part_that_may_be_none(trailer: Trailer, written: dict[str, Any]) -> None:
    assert list(codec(Trailer).document(trailer).items()) == list(written.items())
    assert codec(Trailer).read(written) == trailer


def test_a_flat_part_that_may_be_none_and_is_not_there_is_none() -> None:
    assert codec(Trailer).read({"place": "back"}) == Trailer("back")


def test_bytes_of_any_kind_can_be_kept_short() -> None:
    key = bytes(range(256))
    document = codec(Lock).document(Lock(key=key))
    assert len(document["key"]) < 1.4 * len(key)
    assert codec(Lock).read(json.loads(json.dumps(document))) == Lock(key=key)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        pytest.param({"digits": 3}, "lock: a code of 4 for 3 digits", id="values that do not go together"),
        pytest.param({"key": "YQ"}, "lock.key: 'YQ' is not base64", id="base64 that was cut"),
        pytest.param({"key": "Y!Q="}, "lock.key: 'Y!Q=' is not base64", id="a character that base64 lacks"),
        pytest.param({"key": "é"}, "lock.key: 'é' is not base64", id="a character outside ASCII"),
        pytest.param({"key": 7}, "lock.key: 7 is no text", id="a number for base64"),
    ],
)
def test_what_a_dataclass_refuses_is_damage(document: dict[str, object], told: str) -> None:
    @dataclass
    class Door:
        lock: Lock

    with pytest.raises(DamagedError) as refused:
        codec(Door).read({"lock": document})
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        pytest.param(("name",), 7, "name: 7 is no text", id="a number for a text"),
        pytest.param(("light",), 1, "light: 1 is neither true nor false", id="a number for a truth"),
        pytest.param(("weight",), True, "weight: True is no number", id="a truth for a number"),
        pytest.param(("weight",), 1e13, "weight: 10000000000000.0 is no number", id="a number time cannot hold"),
        pytest.param(("weight",), "NaN", "weight: 'NaN' is no number", id="no number where it has to be finite"),
        pytest.param(("loss",), "nan", "loss: 'nan' is no number", id="an unusual way to write NaN"),
        pytest.param(("loss",), 10**400, "loss: a number is too large", id="a number no float can hold"),
        pytest.param(("built",), "tomorrow", "built: 'tomorrow' is not a time", id="a text for a time"),
        pytest.param(
            ("built",), "2026-13-01T00:00:00Z", "built: '2026-13-01T00:00:00Z' is not", id="a thirteenth month"
        ),
        pytest.param(("tags",), [], "tags: a list is no object", id="a list for an object"),
        pytest.param(("tags", "a"), 7, "tags['a']: 7 is no text", id="a number in an object of texts"),
        pytest.param(("bells",), {}, "bells: an object is no list", id="an object for a list"),
        pytest.param(("bells", 0, "name"), 7, "bells[0].name: 7 is no text", id="a fault deep inside"),
        pytest.param(("wheels", 0, 1), 2**63, "wheels[0].spokes: 9223372036854775808 is no whole", id="a huge number"),
        pytest.param(("wheels", 0), [], "wheels[0]: a list is no list of 3", id="an empty row"),
        pytest.param(("wheels", 0, 2), [[3]], "wheels[0].told: a list is no list of 2", id="half a pair of numbers"),
        pytest.param(("owner", "raw"), "\u0100", "owner.raw: 'Ā' has a character that is no byte", id="no byte"),
        pytest.param(("main", "colour"), "no colour!", "main.colour: 'no colour!' is not Colour", id="no word at all"),
        pytest.param(("owner", "level"), 7, "owner.level: 7 is no text", id="a number for a word"),
        pytest.param(("new",), json.loads("1e999"), "a number in it is too large", id="an unknown infinite number"),
        pytest.param(("new",), json.loads("[" * 40 + "]" * 40), "it is nested too deeply", id="an unknown abyss"),
    ],
)
def test_damage_is_refused_with_its_place(path: tuple[str | int, ...], value: object, told: str) -> None:
    with pytest.raises(DamagedError) as refused:
        codec(Bike).read(changed(path, value))
    assert str(refused.value).startswith(told)


def test_a_field_without_a_default_must_be_there() -> None:
    with pytest.raises(DamagedError, match=r"^bells\[0\]: name is missing"):
        codec(Bike).read({"name": "trek", "bells": [{}]})


@pytest.mark.parametrize(
    ("path", "value", "left"),
    [
        pytest.param(("new",), {"deep": [1.5, None]}, [], id="a field"),
        pytest.param(("bells", 0, "new"), "x", [], id="a field of an entry"),
        pytest.param(("wheels", 0), ["blue", 28, [[3, 4]], "more"], [], id="a longer row"),
        pytest.param(
            ("bells",),
            [{"name": "a", "colour": "green"}, {"name": "b", "colour": "red"}, {"name": "c", "colour": "pink"}],
            ["bells"],
            id="entries with new words among others",
        ),
        pytest.param(("by_place", "top"), {"name": "a", "colour": "green"}, ["by_place"], id="the same in an object"),
        pytest.param(("wheels", 0, 0), "green", ["wheels"], id="a row with a new word"),
    ],
)
def test_what_a_newer_version_wrote_survives_in_its_place(
    path: tuple[str | int, ...], value: object, left: list[str]
) -> None:
    document = changed(path, value)
    told: list[str] = []
    for _ in range(10):
        read = codec(Bike).read(json.loads(json.dumps(document)), told)
        assert codec(Bike).document(read) == document
    assert set(told) == set(left)


@pytest.mark.parametrize("path", [("main", "colour"), ("owner", "level")], ids=["an enumeration", "a literal"])
def test_a_new_word_where_nothing_can_be_set_aside_is_told_apart_from_damage(path: tuple[str, ...]) -> None:
    with pytest.raises(NewerError):
        codec(Bike).read(changed(path, "green"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from([*DOCUMENT, "new", "unknown"])


@given(st.dictionaries(names, json_values, max_size=4))
def test_any_json_is_read_or_refused_and_what_is_read_can_be_written(values: dict[str, object]) -> None:
    document = {**DOCUMENT, **values}
    try:
        read = codec(Bike).read(document)
    except DamagedError:
        return
    written = json.loads(json.dumps(codec(Bike).document(read), allow_nan=False))
    assert codec(Bike).read(written) == read
    assert {name: written[name] for name in values if name not in DOCUMENT} == {
        name: value for name, value in values.items() if name not in DOCUMENT
    }


def test_a_type_that_cannot_be_kept_is_named() -> None:
    @dataclass(frozen=True)
    class Odd:
        what: set[str]

    with pytest.raises(TypeError, match="cannot be kept"):
        codec(Odd)


def test_a_field_that_is_never_kept_has_its_default_when_its_dataclass_is_read() -> None:
    @dataclass
    class Basket:
        holds: int
        inside: list[str] = field(default_factory=list, init=False)

    assert codec(Basket).read({"holds": 2}).inside == []


@dataclass(frozen=True, slots=True)
class Lap:
    """Kept as a row with parts."""

    FORM: ClassVar[Form] = Form.ROW

    name: str
    began: UnixTime | None = field(default=None, metadata=part("times"))
    seconds: float = field(default=0.0, metadata=part("times"))
    gears: Annotated[Mapping[str, tuple[float, str] | None], Columns(("low", "high"))] = field(default_factory=dict)
    falls: int = field(default=0, metadata=part("counts"))
    colour: Colour = field(default=Colour.RED, metadata=part("counts"))
    watched: bool = field(default=False, metadata=TRANSIENT)


LAPS = [
    pytest.param(
        Lap("a", NOON, 61.5, {"low": (1.0, "x"), "high": None}, 2, Colour.BLUE),
        ["a", [NOON.timestamp(), 61.5], [[1.0, "x"], None], [2, "blue"]],
        id="all of it",
    ),
    pytest.param(Lap("a"), ["a", [None, 0.0], [0, 0], [0, "red"]], id="keys that a mapping does not have"),
]


@pytest.mark.parametrize(("lap", "row"), LAPS)
def test_a_row_may_have_parts_columns_and_times_that_are_numbers(lap: Lap, row: list[Any]) -> None:
    assert json.loads(json.dumps(codec(Lap).document(lap))) == row
    assert codec(Lap).read(json.loads(json.dumps(row))) == lap


def test_what_is_transient_is_not_written() -> None:
    assert codec(Lap).document(Lap("a", watched=True)) == codec(Lap).document(Lap("a"))


ROWS_READ = [
    pytest.param(["a", [None], [0], [3]], Lap("a", falls=3), id="parts and columns may be shorter"),
    pytest.param(["a", [None, 1, 7], [None], [0, "red", 5], "more"], Lap("a", seconds=1.0, gears={"low": None}),
                 id="or longer"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "lap"), ROWS_READ)
def test_rows_of_other_versions_are_read(row: list[Any], lap: Lap) -> None:
    assert codec(Lap).read(row) == lap


ROWS_DAMAGED = [
    pytest.param("row", "is no list of 4", id="no list"),
    pytest.param(["a", 5], "5 is no list of 2", id="a part that is no list"),
    pytest.param(["a", ["noon"]], "began: 'noon' is not a time", id="a time that is a text"),
    pytest.param(["a", [None, float("inf")]], "seconds: inf is no number", id="an infinite number in a part"),
    pytest.param(["a", [None, 0.0], 3], "gears: 3 is no list of 2", id="columns that are no list"),
    pytest.param(["a", [None, 0.0], [None, None, None]], "gears: a list is no list of 2", id="a column too many"),
    pytest.param(["a", [None, 0.0], [0, [1.0, 2]]], "gears.high: 2 is no text", id="a value of the wrong type"),
    pytest.param(["a", [None, 0.0], [], [2**70]], "falls: 1180591620717411303424 is no whole", id="too large a number"),
]


@pytest.mark.parametrize(("row", "what"), ROWS_DAMAGED)
def test_damage_in_a_row_is_refused_by_its_place(row: Any, what: str) -> None:
    with pytest.raises(DamagedError) as fault:
        codec(Lap).read(row)
    assert what in str(fault.value)


def test_a_newer_word_in_a_row_with_parts_is_set_aside_by_whoever_can() -> None:
    with pytest.raises(NewerError):
        codec(Lap).read(["a", [None, 0.0], [0, 0], [0, "mauve"]])


TIMES = st.integers(0, 4_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, tz=timezone.utc))
GEARS = st.none() | st.tuples(st.floats(-1e9, 1e9), st.text())


@given(
    st.text(), st.none() | TIMES, st.floats(-1e12, 1e12), st.dictionaries(st.sampled_from(["low", "high"]), GEARS),
    st.integers(-(2**63), 2**63 - 1), st.sampled_from(Colour),
)  # fmt: skip
def test_a_row_with_parts_is_read_as_it_was(
    name: str,
    began: datetime | None,
    seconds: float,
    gears: dict[str, tuple[float, str] | None],
    falls: int,
    colour: Colour,
) -> None:
    lap = Lap(name, began, seconds, gears, falls, colour)
    assert codec(Lap).read(json.loads(json.dumps(codec(Lap).document(lap)))) == lap


def test_a_row_with_parts_cannot_carry_anything_unknown_along() -> None:
    @dataclass(frozen=True)
    class Both(Persisted):
        FORM: ClassVar = Form.ROW

        name: str = field(default="", metadata=part("names"))

    with pytest.raises(TypeError, match="Both cannot be kept"):
        codec(Both)
