"""Megatron-LM's loop as far as lastbeat follows it: ``megatron.training.training`` by its names and arguments, which no
package has. A real ``megatron.core`` beside it stays."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Loop(ModuleType):
    """The module. ``pretrain`` makes steps up to the last one, and evaluates and saves at each second step."""

    def __init__(self) -> None:
        super().__init__("megatron.training.training")
        self.args = SimpleNamespace(
            train_iters=4, consumed_train_samples=0, seq_length=8, exit_signal_handler=False, save="/ckpt"
        )
        self.phases: list[object] = []
        self.run: Any = None
        self.reported: Any = None
        """lastbeat's, bound to this loop."""

        def training_log(  # noqa: PLR0917 - as theirs
            loss_dict: Any, total_loss_dict: Any, learning_rate: Any, iteration: int, loss_scale: Any,
            report_memory_flag: Any, skipped_iter: Any, grad_norm: Any,
        ) -> bool:  # fmt: skip
            return bool(loss_dict)

        def evaluate_and_print_results(prefix: str, forward_step_func: Any) -> None:
            self.phases.append(self.run.phase_now[0])

        def save_checkpoint(iteration: int, model: Any) -> None:
            self.phases.append(self.run.phase_now[0])

        self.training_log, self.save_checkpoint = training_log, save_checkpoint
        self.evaluate_and_print_results = evaluate_and_print_results

    def get_args(self) -> SimpleNamespace:
        return self.args

    def get_signal_handler(self) -> SimpleNamespace:
        return SimpleNamespace(sig=15)

    def pretrain(self, last: int, leave: Callable[[], None] = lambda: None) -> None:
        for iteration in range(1, last + 1):
            self.args.consumed_train_samples += 2
            assert self.training_log({"lm loss": 1 / iteration}, {}, 0.1, iteration, 1.0, False, 0, grad_norm=0.5)
            if iteration % 2 == 0:
                self.evaluate_and_print_results(f"iteration {iteration}", None)
                self.save_checkpoint(iteration, None)
        leave()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    """The loop, and ``lastbeat.integrations.megatron`` bound to it."""
    module, package = Loop(), ModuleType("megatron.training")
    package.training = module  # type: ignore[attr-defined]
    if importlib.util.find_spec("megatron") is None:
        monkeypatch.setitem(sys.modules, "megatron", ModuleType("megatron"))
    monkeypatch.setitem(sys.modules, "megatron.training", package)
    monkeypatch.delitem(sys.modules, "lastbeat.integrations.megatron", raising=False)
    module.reported = importlib.import_module("lastbeat.integrations.megatron").reported
    yield module
    sys.modules.pop("lastbeat.integrations.megatron", None)
