"""What one execution environment keeps between two events, and when that is too old to be kept."""

import logging
import os
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timezone

from lastbeat import opening, wire
from lastbeat import settings as configuration
from lastbeat.deliver.port import Channel
from lastbeat.fleet.passes import Passes
from lastbeat.model.fleet import Shard
from lastbeat.model.outcome import Outcome
from lastbeat.settings import Settings, table
from lastbeat.stores.clock import steady
from lastbeat.stores.port import Store
from lastbeat.stores.s3 import MONITORING_REGION
from lastbeat_lambda import telling
from lastbeat_lambda.secret_error import SecretError

SECRET_S = 900.0
"""A webhook's address that lies elsewhere is read again after this long."""
FROZEN_S = 2.0
"""Lambda freezes what is idle. Where the clock of this machine did not go on meanwhile, what was measured by it is
wrong."""
SHARDS_KEPT = 4

_log = logging.getLogger(__name__)


def _environment() -> dict[str, str]:
    """What settings, credentials and endpoints come from."""
    names = {setting.name for setting in configuration.every_setting()}
    return {name: text for name, text in os.environ.items() if name in names or name.startswith("AWS_")}


@dataclass
class Warm:
    """Settings, channels and the store, and the passes made so far."""

    settings: Settings
    channels: tuple[Channel, ...]
    store: Store
    secret: str | None = None
    """The webhook's address as it was read at :attr:`read_at`; None where no setting says where it lies."""
    read_at: float = field(default_factory=time.time)
    began: tuple[float, float] = field(default_factory=lambda: (time.time(), steady()))
    environment: dict[str, str] = field(default_factory=_environment)
    """What the settings were read from."""
    passes: OrderedDict[Shard | None, Passes] = field(default_factory=OrderedDict)

    @classmethod
    def made(cls, earlier: "Warm | None" = None) -> "Warm":
        """Everything anew, by the environment as it is. Raises ``SettingsError`` and ``SecretError``."""
        settings = configuration.load(watching=True)
        telling.follow(settings)
        secret = None
        place = settings[table.SLACK_WEBHOOK_FROM]
        if isinstance(place, str):
            secret = _secret(place, settings, earlier)
            if earlier is not None and earlier.secret == secret and earlier.lasts():
                # What it has sent and could not write down yet, and whom it leaves alone for a while, is kept with it.
                earlier.read_at = time.time()
                return earlier
            settings = configuration.load(environ={**os.environ, "SLACK_WEBHOOK_URL": secret}, watching=True)
            telling.follow(settings)
        for warning in settings.warnings:
            _log.warning("%s", warning)
        return cls(settings, wire.channels(settings), opening.store(settings), secret)

    def outdated(self) -> bool:
        """Whether it has to be made anew before the next event."""
        return not self.lasts() or (self.secret is not None and time.time() - self.read_at > SECRET_S)

    def lasts(self) -> bool:
        """Whether all but the secret is as it was."""
        return not self.was_frozen() and self.environment == _environment()

    def was_frozen(self) -> bool:
        """Whether this machine stood still in between."""
        return abs((time.time() - self.began[0]) - (steady() - self.began[1])) > FROZEN_S

    def check(self, run_id: str) -> Outcome:
        """One run, once round."""
        return wire.watch(self.settings, run_id, self.channels, clock=_now, at=self.store).tick()

    def over(self, shard: Shard | None) -> Passes:
        """What makes passes over the fleet, or over a part of it."""
        if shard not in self.passes:
            self.passes[shard] = wire.passes(self.settings, self.channels, clock=_now, shard=shard)
        self.passes.move_to_end(shard)
        while len(self.passes) > SHARDS_KEPT:
            self.passes.popitem(last=False)
        return self.passes[shard]


def _secret(place: str, settings: Settings, earlier: Warm | None) -> str:
    from lastbeat_lambda import parameter  # noqa: PLC0415 - only where the address lies elsewhere

    try:
        return parameter.read(place, settings.environ, settings[MONITORING_REGION])
    except SecretError as error:
        if earlier is None or earlier.secret is None:
            raise
        # What worked a quarter of an hour ago most likely still does, and a pass without it would alert nobody.
        _log.warning("%s; going on with the address that was read before", error)
        return earlier.secret


def _now() -> datetime:
    return datetime.now(timezone.utc)
