"""What torch.optim and DistributedDataParallel do, for scripts that are not about them.

Both load torch's compiler, which takes as long again as torch itself, on each rank and in each start.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist

RATE, MOMENTUM = 0.05, 0.9


class Descent:
    """Gradient descent with momentum, on the mean of all ranks' gradients."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._parameters = list(model.parameters())
        self._velocities = [torch.zeros_like(each) for each in self._parameters]

    def forget(self) -> None:
        """Begin a pass without gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    def step(self) -> None:
        """Change the model. All ranks wait for each other here."""
        with torch.no_grad():
            for parameter, velocity in zip(self._parameters, self._velocities, strict=True):
                assert parameter.grad is not None
                dist.all_reduce(parameter.grad)
                velocity.mul_(MOMENTUM).add_(parameter.grad, alpha=1 / dist.get_world_size())
                parameter.sub_(velocity, alpha=RATE)

    def state(self) -> list[torch.Tensor]:
        """What a checkpoint has to hold of it."""
        return self._velocities

    def load(self, state: Sequence[torch.Tensor]) -> None:
        """Go on where a checkpoint was saved."""
        self._velocities = list(state)
