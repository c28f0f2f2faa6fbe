"""The work of ``watch``: checks one run, once or until it is over."""

import logging
from collections.abc import Callable
from dataclasses import replace

from lastbeat import stores
from lastbeat.model.observation import NeverSeen
from lastbeat.model.outcome import Outcome
from lastbeat.settings import Settings, opening
from lastbeat.settings.channels import configured_channels
from lastbeat.stores.clock import steady_clock
from lastbeat.watch.configured import configured_watch
from lastbeat_cli import exits, values, watch
from lastbeat_cli.loop import Stop, follow
from lastbeat_cli.plain import Plain

_log = logging.getLogger(__name__)


def watch_run(  # noqa: PLR0913 - each is an option
    given: dict[str, str | None],
    faults: list[str],
    *,
    run_id: str | None,
    once: bool,
    interval: str,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Watch one run. ``given`` are the options that are settings. Returns the exit status.

    Raises :class:`SettingsError` with ``faults`` and all others, before any I/O.
    """
    name = _checked(run_id, faults)
    interval_s = values.interval(interval, faults, least=0.001, most=86400.0)
    settings = values.settings(given, faults, watching=True, warns=True)
    channels = configured_channels(settings)
    checking = configured_watch(settings, name, channels, clock=steady_clock(), dry_run=dry_run)
    tick = _suggesting(checking.tick, settings, name)
    plain = Plain(as_json=as_json, preview=watch.preview.Preview(channels) if dry_run else None)
    if not channels and not once:
        _log.warning("no channel is set up, so no alert will be sent; set for example SLACK_WEBHOOK_URL")
    if once:
        outcome = tick()
        plain.show(outcome)
        return exits.of(outcome)
    with Stop() as stop:
        plain.left = stop.ask
        outcome = follow(tick, plain.show, stop, interval_s, dry_run=dry_run)
    return exits.of(outcome)


def _suggesting(tick: Callable[[], Outcome], settings: Settings, run_id: str) -> Callable[[], Outcome]:
    """``tick``, with similar run names noted in its first outcome if the run was never seen."""
    asked = False

    def ticking() -> Outcome:
        nonlocal asked
        outcome = tick()
        if asked or not isinstance(outcome.observation, NeverSeen):
            return outcome
        asked, near = True, stores.run_names.suggestion(opening.store(settings), run_id)
        return outcome if not near else replace(outcome, notes=(near, *outcome.notes))

    return ticking


def _checked(run_id: str | None, faults: list[str]) -> str:
    """The run id. Adds what is wrong with it to ``faults``."""
    if run_id is None:
        faults.append("--run-id is missing; use for example --run-id mistral-20250804-171621")
        return ""
    return values.run_id(run_id, faults)
