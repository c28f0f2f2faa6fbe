"""A run with a log that grows, in a store in memory."""

from lastbeat.model.outcome import Outcome
from support.world import World

MAIN = "logs/training_log_latest.txt"
OOM = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 210, in <module>\n'
    "    loss.backward()\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 1.10 GiB is free.\n"
)


def steps(last: int, first: int = 1) -> str:
    return "".join(f"step {step}/1000 loss 2.5 lr 3e-04\n" for step in range(first, last + 1))


class LoggedWorld(World):
    """A run with a log that grows."""

    text = ""

    def write(self, text: str, name: str = MAIN) -> None:
        self.text += text
        self.put(name, self.text)

    def minutes(self, count: int) -> Outcome:
        """So many more looks, a minute apart, with the heartbeat of a thread in between."""
        for _ in range(count):
            self.after(60)
            self.beat()
            outcome = self.look()
        return outcome

    def cold(self) -> Outcome:
        """A look of somebody who knows of no other, as a function that keeps nothing is."""
        return self.fresh_watch(state=None).tick()
