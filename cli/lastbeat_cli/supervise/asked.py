"""The supervision that the user asks for, and the one that is recorded: checked, completed, and as settings."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.jobs.restarts import loading
from lastbeat.jobs.restarts.names import KnownNames
from lastbeat.model.job import JobSpec
from lastbeat.model.restart import RestartPolicy, Supervision
from lastbeat.model.runid import InvalidRunIdError, safe_run_id
from lastbeat.settings import Settings, SettingsError, catalogues, opening, table
from lastbeat.stores.kind import DIRECTORY
from lastbeat.watch.record.repository import RecordRepository
from lastbeat_cli import options, reach, values
from lastbeat_cli.author import author
from lastbeat_cli.supervise import config, manifest
from lastbeat_cli.supervise.config import WantedSupervision

_log = logging.getLogger(__name__)

overrides: Final = options.hidden("--signals", "--slack-webhook", "--sns-topic", "--on-permanent")
"""Options that outrank settings, in every command that supervises."""


def run_id_of(asked: WantedSupervision, faults: list[str], *, adopts: bool = False) -> str:
    """The run's id. Adds what is missing to ``faults``; an adopted job needs no command."""
    if not asked.run_id:
        faults.append("--run-id is missing; use for example --run-id llama-7b")
    if not asked.launcher:
        faults.append(reach.missing_launcher())
    if not asked.command and not adopts:
        faults.append("there is no command; put it after --, as in -- python train.py")
    return checked(asked.run_id or "x", faults)


def checked(run_id: str, faults: list[str]) -> str:
    """The id of the run that its user calls ``run_id``, or a placeholder and a fault."""
    try:
        name, renamed = safe_run_id(run_id)
    except InvalidRunIdError as fault:
        faults.append(str(fault))
        return "x"
    if renamed:
        _log.warning("%s", renamed)
    return name


def by_options(
    given: Mapping[str, str | None],
    asked: WantedSupervision,
    policy: str | None,
    faults: list[str],
) -> WantedSupervision:
    """``asked`` with absolute paths, the policy's text, and the settings that have options of their own."""
    cwd = Path.cwd()
    name, text = "", ""
    if policy:
        try:
            name, text = config.policy_of(policy, cwd)
        except loading.RestartPolicyError as error:
            faults += str(error).splitlines()
    named = {
        table.SIGNALS.name: given.get("signals"),
        table.MONITORING_ROOT.name: given.get("root"),
        table.ON_PERMANENT.name: given.get("on_permanent"),
    }
    return replace(
        asked,
        logs=tuple(config.place(each, cwd) for each in asked.logs),
        checkpoints=config.place(asked.checkpoints, cwd) if asked.checkpoints else "",
        policy=text,
        policy_name=name,
        settings={setting: said for setting, said in named.items() if said is not None},
    )


def settings_for(given: Mapping[str, str | None], asked: WantedSupervision, faults: list[str]) -> Settings:
    """The settings from the options, ``asked`` and the environment. Raises :class:`SettingsError`."""
    kept = dict(asked.settings)
    if given.get("root") is not None or given.get("bucket") is not None:
        kept.pop(table.MONITORING_ROOT.name, None)
    return _limited(values.load(given, faults, watching=True, kept=kept), asked.inactivity_minutes)


def _limited(settings: Settings, inactivity_minutes: float | None) -> Settings:
    if inactivity_minutes is None:
        return settings
    return replace(settings, policy=replace(settings.policy, inactivity_s=60 * inactivity_minutes))


def supervision(settings: Settings, asked: WantedSupervision) -> Supervision:
    """The supervision to record for ``asked``. Raises :class:`SettingsError`."""
    traits = launcher_traits(asked.launcher)
    remote = traits.remote
    # The current folder means nothing to a remote launcher.
    cwd = asked.cwd or ("" if remote else str(Path.cwd()))
    if remote and asked.output:
        raise SettingsError(
            [f"--output: jobs of {asked.launcher} have none; what they write is brought to the run's logs/ by itself"]
        )
    spec = JobSpec(asked.command, cwd, dict(asked.environment), asked.output, tuple(asked.options))
    if traits.takes_manifest and asked.command:
        spec = replace(spec, manifest=asked.manifest or manifest.kept(asked.command[0]))
        manifest.warn(spec.manifest)
    own = f"{opening.root_url(settings)}/{asked.run_id}/"
    spec, logged = _with_output(spec, settings, asked.launcher, asked.run_id, own)
    found = Supervision(
        asked.launcher,
        spec,
        policy_name=asked.policy_name,
        policy=asked.policy,
        checkpoints=asked.checkpoints,
        logs=tuple(dict.fromkeys((*logged, *_elsewhere(asked.logs, own)))),
        by=author(),
        settings={name: text for name, text in asked.settings.items() if name != table.MONITORING_ROOT.name},
        inactivity_minutes=asked.inactivity_minutes,
        interval_s=asked.interval_s,
    )
    return replace(found, compiled=restart_policy(settings, found))


def _with_output(
    spec: JobSpec, settings: Settings, launcher: str, run_id: str, own: str
) -> tuple[JobSpec, tuple[str, ...]]:
    """The spec with its output file, and the paths where that output will be found."""
    if launcher_traits(launcher).output_below_run and not spec.output:
        if settings.root.scheme == DIRECTORY:
            # Below the run, where every watcher finds it.
            return replace(spec, output=f"{own}logs/{{job_name}}.log"), ()
        folder = Path(settings.state_dir or Path.cwd(), "output", run_id)
        return replace(spec, output=f"{folder}/{{job_name}}.log"), (f"{folder}/*.log",)
    if not spec.output or spec.output.startswith(own):
        return spec, ()
    # The launcher fills in these placeholders, so a pattern stands for any value.
    pattern = spec.output.replace("{job_name}", "*").replace("{attempt}", "*").replace("{run_id}", run_id)
    return spec, (str(Path(spec.cwd, pattern)),)


def _elsewhere(logs: tuple[str, ...], own: str) -> tuple[str, ...]:
    """``logs`` without those below the run, which are read anyway.

    Raises :class:`SettingsError` for a log that lies elsewhere in a store, and for too many logs.
    """
    away = [each for each in logs if "://" in each and not each.startswith(own)]
    if away:
        raise SettingsError(
            [
                f"--log {each} is in a store: of stores only the run's own logs are read; let the job write it below "
                f"{own}logs/, or name the file on this machine"
                for each in away
            ]
        )
    if len(logs) > table.MOST_LOGS:
        raise SettingsError([f"--log names {len(logs)} files; {table.MOST_LOGS} are the most, use * for many"])
    return tuple(each for each in logs if not each.startswith(own))


def not_supervised(run_id: str) -> str:
    """The error message for a run that is not supervised."""
    return (
        f"{run_id} is not supervised; begin with lastbeat restart supervise --run-id {run_id} --launcher … -- COMMAND"
    )


def repository(settings: Settings, run_id: str) -> RecordRepository:
    """The repository of the run's record."""
    return RecordRepository.of_run(opening.store(settings), run_id)


def restart_policy(settings: Settings, supervision: Supervision) -> RestartPolicy | None:
    """The recorded restart policy, or None if nothing is restarted. Raises :class:`SettingsError`."""
    if not supervision.policy:
        return None
    try:
        known = KnownNames.of(catalogues.catalogue(settings[table.SIGNALS]))
        name = supervision.policy_name
        policy = loading.load_text(supervision.policy, f"{name}.yaml", name, known)
    except ValueError as error:
        raise SettingsError(str(error).splitlines()) from None
    said = settings[table.ON_PERMANENT]
    return policy if said is None else replace(policy, on_permanent="leave" if said == "leave" else "end")


def as_recorded(given: Mapping[str, str | None], supervision: Supervision) -> Settings:
    """The settings with those recorded in ``supervision``. Raises :class:`SettingsError`."""
    settings = _limited(
        values.load(given, [], watching=True, kept=supervision.settings), supervision.inactivity_minutes
    )
    if not supervision.logs:
        return settings
    return replace(settings, values=settings.values.replaced(table.LOGS, supervision.logs))
