"""A folder that nobody may look into is named with its reason, is not missing, and hides nothing beside it.

In a bucket there are none: who may list it may list all of it.
"""

from typing import TYPE_CHECKING

import pytest

from lastbeat.stores.port import DeniedError, Store
from support.row_by_row import labelled

if TYPE_CHECKING:
    from contract.stores.conftest import Root

KEYS = ("a/x", "run/_error", "run/ckpt/1/x.pt", "run/ckpt/2/x.pt", "run/metadata.json", "z/x")


@pytest.fixture(params=["memory", "directory"])
def root(request: pytest.FixtureRequest) -> "Root":
    from contract.stores.conftest import KINDS  # noqa: PLC0415 - as a fixture of its own, there are fewer kinds here

    return KINDS[request.param](request)


def _seen(store: Store, prefix: str = "", start_after: str = "") -> list[tuple[str, bool]]:
    return [(entry.key, entry.fault is None) for entry in store.list(prefix, start_after).entries]


@pytest.mark.parametrize("folder", ["run/", "run/ckpt/", "run/ckpt/2/"])
def test_it_takes_the_place_of_what_lies_in_it(root: "Root", store: Store, folder: str) -> None:
    for key in KEYS:
        store.write(key, b"1")
    assert root.close is not None
    with root.close(folder):
        left = [(key, True) for key in KEYS if not key.startswith(folder)]
        assert _seen(store) == sorted([*left, (folder, False)])
        assert set(store.folders()) == {"a", "run", "z"}
        (fault,) = [entry.fault for entry in store.list("").entries if entry.fault is not None]
        assert isinstance(fault, DeniedError)
        assert folder in str(fault)
        assert fault.advice
    assert _seen(store) == [(key, True) for key in KEYS]


def test_whoever_asks_for_it_alone_is_refused(root: "Root", store: Store) -> None:
    for key in KEYS:
        store.write(key, b"1")
    assert root.close is not None
    with root.close("run/"):
        for call in (
            lambda: store.list("run/"),
            lambda: store.list("run/ckpt/"),
            lambda: store.read("run/_error", 1),
            lambda: store.read("run/nothing", 1),
            lambda: store.write("run/new", b""),
            lambda: store.delete("run/_error"),
        ):
            with pytest.raises(DeniedError):
                call()


@pytest.mark.parametrize(("start_after", "expected"), labelled([
    ("from within it", "run/ckpt/1/x.pt", [("run/ckpt/", False), ("run/metadata.json", True)]),
    ("from its own key", "run/ckpt/", [("run/metadata.json", True)]),
    ("from its end", "run/ckpt/\U0010ffff", [("run/metadata.json", True)]),
    ("from behind it", "run/ckpt0", [("run/metadata.json", True)]),
]))  # fmt: skip
def test_a_listing_that_begins_within_it_names_it(
    root: "Root", store: Store, start_after: str, expected: list[tuple[str, bool]]
) -> None:
    for key in KEYS:
        store.write(key, b"1")
    assert root.close is not None
    with root.close("run/ckpt/"):
        assert _seen(store, "run/", start_after) == expected
