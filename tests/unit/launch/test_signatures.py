"""Functions for scripts have one form: the namespace comes last."""

import inspect

import pytest

from lastbeat.launch import ray

FUNCTIONS = [each for name in ray.__all__ if inspect.isfunction(each := getattr(ray, name))]
ASKING = [each for each in FUNCTIONS if "namespace" in inspect.signature(each).parameters]


@pytest.mark.parametrize("function", ASKING, ids=[each.__name__ for each in ASKING])
def test_the_namespace_is_the_last_argument(function: object) -> None:
    names = list(inspect.signature(function).parameters)  # type: ignore[arg-type]

    assert names[-1] == "namespace"
