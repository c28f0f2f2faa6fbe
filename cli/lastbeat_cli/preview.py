"""What a dry run would have sent: the very payloads, chosen by the same rule as a real pass chooses."""

from collections.abc import Sequence

from lastbeat.deliver.port import Channel
from lastbeat.effects.outbox import claim
from lastbeat.model.outcome import Outcome
from lastbeat.model.status import Status
from lastbeat.model.text import clean


class Preview:
    """Called with each outcome of a dry run, gives the lines that tell its effects."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = {channel.identity: channel for channel in channels}
        self._told: set[tuple[str, str]] = set()

    def __call__(self, outcome: Outcome) -> list[str]:
        """A dry run records nothing, so each of its passes decides the same again; it is told once."""
        told: list[str] = []
        if not self._channels:
            from lastbeat.deliver.plain import render  # noqa: PLC0415 - only for a dry run without a channel

            for message in outcome.alerts:
                if self._is_new(message.key, ""):
                    told += ["Would alert, but no channel is set up:", *render(message).split("\n")]
            return told
        if outcome.record is None or outcome.status is Status.UNKNOWN:
            return []
        # Alerts of earlier passes that still wait are effects of this one, too.
        _, claims = claim(outcome.record, self._channels, "dry-run", outcome.at, lease_s=1.0)
        for each in claims:
            if self._is_new(each.message.key, each.identity):
                channel = self._channels[each.identity]
                told.append(f"Would send to {channel.describe} ({each.message.event}):")
                told += [f"  {line}" for line in clean(channel.preview(each.message)).split("\n")]
        return told

    def _is_new(self, key: str, identity: str) -> bool:
        new = (key, identity) not in self._told
        self._told.add((key, identity))
        return new
