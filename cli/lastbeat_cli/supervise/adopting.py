"""Adopts a job that lastbeat did not start: completes the wanted supervision by what the launcher knows of the job."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.jobs.launchers import registry
from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.model.job import AdoptedJob
from lastbeat.model.secrets import is_secret, mask_tokens
from lastbeat.settings import Settings, SettingsError
from lastbeat_cli.supervise import manifest
from lastbeat_cli.supervise.config import WantedSupervision

_log = logging.getLogger(__name__)


def look(launcher: str, job: str, options: Sequence[str]) -> AdoptedJob:
    """What the launcher knows of ``job``. Raises :class:`SettingsError` if it cannot be adopted."""
    try:
        return registry.module(launcher).adoption(job, options)
    except LauncherError as error:
        raise SettingsError([f"{job}: {error.told}"]) from None


def completed(settings: Settings, wanted: WantedSupervision, adopted: AdoptedJob) -> WantedSupervision:
    """``wanted`` with the job's folder and output, and with its script if no command was given.

    Raises :class:`SettingsError` if there is a restart policy but nothing to start.
    """
    wanted = replace(
        wanted,
        cwd=wanted.cwd or (adopted.cwd if not wanted.command else ""),
        logs=tuple(dict.fromkeys((*wanted.logs, *adopted.outputs))),
    )
    if wanted.command or not wanted.policy:
        return wanted
    if adopted.command:
        return replace(
            wanted,
            command=_unrecorded(wanted.run_id, adopted.command),
            options=(*_recordable(adopted.options), *wanted.options),
            environment={**_plain(adopted.environment), **wanted.environment},
        )
    if not adopted.script:
        raise SettingsError(
            [f"it is unknown what would start {wanted.run_id} again: put its command after --, or leave out --policy"]
        )
    if launcher_traits(wanted.launcher).takes_manifest:
        return replace(wanted, command=(adopted.id,), manifest=manifest.read(adopted.script, adopted.id))
    return replace(
        wanted,
        command=(str(_kept(settings, wanted.run_id, adopted.script)),),
        # If an option occurs twice, sbatch takes the last one.
        options=(*adopted.options, *wanted.options),
    )


def _unrecorded(run_id: str, command: tuple[str, ...]) -> tuple[str, ...]:
    """``command``. Raises :class:`SettingsError` if it may hold a secret, because commands are recorded."""
    if any(mask_tokens(word) != word for word in command):
        fault = f"what {run_id} was started with looks as if it held a secret, and commands are recorded beside the run"
        raise SettingsError([f"{fault}: put a command without it after --, or leave out --policy"])
    return command


def _recordable(options: Sequence[str]) -> tuple[str, ...]:
    """``options`` without those that may hold a secret; warns about each of these."""
    for name in (each.partition("=")[0] for each in options if mask_tokens(each) != each):
        _log.warning(
            "%s of the job looks as if it held a secret and is not recorded, so the next job does not have it: give it "
            "with --option, as a file if possible",
            name,
        )
    return tuple(each for each in options if mask_tokens(each) == each)


def _plain(environment: Mapping[str, str]) -> dict[str, str]:
    """The job's environment variables without secrets; warns about those left out."""
    secret = sorted(name for name, value in environment.items() if is_secret(name, value))
    if secret:
        _log.warning(
            "%s look like secrets and are not recorded, so the next job does not have them: %s",
            ", ".join(secret)[:300],
            "see docs/launchers.md#a-job-that-is-already-running",
        )
    return {name: value for name, value in environment.items() if name not in secret}


def _kept(settings: Settings, run_id: str, script: str) -> Path:
    """Keep the script as it was submitted, since its file may have changed, and return the path of the copy."""
    if settings.state_dir is None:
        raise SettingsError(["LASTBEAT_STATE_DIR is not set, and there is no home: the job's script is kept there"])
    digest = hashlib.sha256(script.encode()).hexdigest()[:12]
    path = settings.state_dir / "adopted" / f"{run_id[:100]}-{digest}.sbatch"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")
        path.chmod(0o700)
    except OSError as error:
        raise SettingsError([f"the job's script cannot be kept in {path.parent}: {error.strerror or error}"]) from None
    return path
