"""Megatron-LM's loop as far as lastbeat follows it: ``megatron.training.training`` by its names and arguments, which no
package has. A real ``megatron.core`` beside it stays."""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Loop(ModuleType):
    """The module. ``pretrain`` makes steps up to the last one, and evaluates and saves at each second step."""

    reported: Any
    """lastbeat's, bound to this loop."""
    run: Any

    def __init__(self, folder: str) -> None:
        super().__init__("megatron.training.training")
        self.args = SimpleNamespace(
            train_iters=4, consumed_train_samples=0, seq_length=8, exit_signal_handler=False, save=folder
        )
        self.phases: list[object] = []
        self.get_args, self.get_signal_handler = lambda: self.args, lambda: SimpleNamespace(sig=15)
        self.training_log: Any = lambda loss_dict, total_loss_dict, learning_rate, iteration, grad_norm: None
        self.evaluate_and_print_results: Any = lambda prefix, step_func: self.phases.append(self.run.phase_now[0])
        self.save_checkpoint: Any = lambda iteration, model: self.phases.append(self.run.phase_now[0])

    def pretrain(self, last: int, leave: Callable[[], object] = lambda: None) -> None:
        for iteration in range(1, last + 1):
            self.args.consumed_train_samples += 2
            self.training_log({"lm loss": 1 / iteration}, {}, 0.1, iteration, grad_norm=0.5)
            if iteration % 2 == 0:
                self.evaluate_and_print_results(f"iteration {iteration}", None)
                self.save_checkpoint(iteration, None)
        leave()


def bound(patch: pytest.MonkeyPatch, root: str) -> Loop:
    """The loop, with ``lastbeat.integrations.megatron`` bound to it, which reports to ``root``."""
    module, package = Loop("/ckpt"), ModuleType("megatron.training")
    package.training = module  # type: ignore[attr-defined]
    if importlib.util.find_spec("megatron") is None:
        patch.setitem(sys.modules, "megatron", ModuleType("megatron"))
    patch.setitem(sys.modules, "megatron.training", package)
    patch.setitem(sys.modules, "lastbeat.integrations.megatron", None)
    del sys.modules["lastbeat.integrations.megatron"]
    module.reported = importlib.import_module("lastbeat.integrations.megatron").reported
    patch.setenv("MONITORING_ROOT", root)
    patch.setenv("LASTBEAT_GUARDIAN", "off")
    return module
