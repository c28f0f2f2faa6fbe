"""The state of all random number generators of training: Python's, numpy's, and torch's on the CPU and on this rank's
CUDA device. Only libraries that training has loaded count, so none is imported."""

import base64
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_USUAL: Final = "MT19937"


@dataclass(frozen=True, slots=True)
class RandomState:
    """The random state of each library; None for one that is not loaded."""

    python: tuple[Any, ...]
    numpy: Mapping[str, Any] | None = None
    torch: Any = None
    cuda: Any = None

    @classmethod
    def now(cls) -> "RandomState":
        """The current state. Takes some microseconds, and waits for no device."""
        numpy, torch = _numpy(), _torch()
        return cls(
            random.getstate(),
            # legacy=False, because a tuple takes several times as long.
            numpy.random.get_state(legacy=False) if numpy is not None else None,
            torch.get_rng_state() if torch is not None else None,
            torch.cuda.get_rng_state() if torch is not None and _uses_cuda(torch) else None,
        )

    def restore(self) -> None:
        """Restore this state."""
        random.setstate(self.python)
        numpy, torch = _numpy(), _torch()
        if numpy is not None and self.numpy is not None:
            numpy.random.set_state(self.numpy)
        if torch is not None and self.torch is not None:
            torch.set_rng_state(self.torch)
        if torch is not None and self.cuda is not None and _uses_cuda(torch):
            torch.cuda.set_rng_state(self.cuda)

    def document(self) -> dict[str, Any]:
        """The state for a checkpoint: only numbers and text, about 20 KB."""
        version, words, gauss = self.python
        found: dict[str, Any] = {"python": [version, list(words), gauss]}
        # Generators other than numpy's usual one have other fields.
        if self.numpy is not None and self.numpy["bit_generator"] == _USUAL:
            state, gauss = self.numpy["state"], float(self.numpy["gauss"])
            found["numpy"] = [state["key"].tolist(), int(state["pos"]), int(self.numpy["has_gauss"]), gauss]
        for library, state in (("torch", self.torch), ("cuda", self.cuda)):
            if state is not None:
                found[library] = base64.b64encode(bytes(state.tolist())).decode()
        return found

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "RandomState":
        """The state that :meth:`document` made. Raises ValueError, KeyError or TypeError for any other document."""
        version, words, gauss = document["python"]
        numpy, torch = _numpy(), _torch()
        named = document.get("numpy")
        return cls(
            (version, tuple(words), gauss),
            _of_numpy(numpy, *named) if named is not None and numpy is not None else None,
            *(_tensor(torch, document.get(library)) for library in ("torch", "cuda")),
        )


def _of_numpy(numpy: Any, key: list[int], pos: int, has_gauss: int, gauss: float) -> dict[str, Any]:
    state = {"key": numpy.array(key, dtype=numpy.uint32), "pos": pos}
    return {"bit_generator": _USUAL, "state": state, "has_gauss": has_gauss, "gauss": gauss}


def _tensor(torch: Any, text: str | None) -> Any:
    if torch is None or text is None:
        return None
    return torch.tensor(list(base64.b64decode(text)), dtype=torch.uint8)


def _numpy() -> Any:
    return sys.modules.get("numpy")


def _torch() -> Any:
    torch = sys.modules.get("torch")
    # During its import, the module exists but is empty.
    return torch if hasattr(torch, "get_rng_state") else None


def _uses_cuda(torch: Any) -> bool:
    # Querying an uninitialised CUDA would initialise it.
    return bool(torch.cuda.is_initialized())
