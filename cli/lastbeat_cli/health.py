"""``health``: check the health of a training run, on its Ray cluster or as a run of the fleet."""

from typing import TYPE_CHECKING

import click

from lastbeat.explain.launchers.traits import RayHead, launcher_traits
from lastbeat.jobs.health.clusters import health_of
from lastbeat.jobs.health.lines import lines
from lastbeat.jobs.health.runs import run_health
from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.launchers.ray_exec.cluster import reach as reached
from lastbeat.model.secrets import mask_tokens
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.stores import run_names
from lastbeat.views.one_run import run_watch
from lastbeat.watch.record.repository import RecordRepository
from lastbeat_cli import exits, options, reach, values
from lastbeat_cli.document import tell
from lastbeat_cli.run import one_run

if TYPE_CHECKING:
    from lastbeat.model.training_health import TrainingHealth

WHOSE = "What to check"
KINDS = ("ray", "ray-pod")
"""Launchers whose words for a place name a Ray cluster."""
EPILOG = """\
Exit status, by the convention of monitoring plug-ins:
  0  healthy
  1  healthy, but there are warnings
  2  not healthy: GPUs missing or unused, or a run that failed or is silent
  3  it could not be observed; also wrong settings or arguments

Examples:
  lastbeat check run llama
  lastbeat check cluster --at address=http://10.0.0.7:8265 --checkpoint-dir s3://bucket/llama
  lastbeat check cluster --at head-pod=ray-head --at namespace=ml --pod worker-0 --pod worker-1
  lastbeat check cluster --at head-pod=ray-head --json | jq .issues

This command is read-only. For a RUN it reads record and heartbeats, and for a supervised run on Ray also its cluster.
"""


@click.command("health", cls=options.Grouped, epilog=EPILOG)
@options.argument("run", "[RUN]", "A run of the fleet; for a cluster use --at.", group=WHOSE)
@reach.at(WHOSE, "The Ray cluster, as --at head-pod=ray-head", KINDS)
@options.option("--pod POD", "A pod with GPUs; may be repeated [the head's].", WHOSE, name="pods", multiple=True)
@options.checkpoint_dir(WHOSE)
@options.place
@options.form
def command(
    *,
    run: str | None,
    at: tuple[str, ...],
    pods: tuple[str, ...],
    checkpoint_dir: str | None,
    as_json: bool,
    **given: str | None,
) -> int:
    """Check the health of a training run: GPU use, network, Ray's resources and checkpoints.

    Prints each problem with the remedy.
    """

    faults: list[str] = []
    keys = {key: option for kind in KINDS for key, option in launcher_traits(kind).reach.items()}
    where = reach.by_option(at, keys, "Ray", faults)
    address, pod = where.pop("--ray-address", None), where.pop("--head-pod", None)
    named = [each for each in (run, pod, address) if each is not None]
    if len(named) != 1:
        many = "none is named" if not named else "name one of them"
        faults.append(f"whose health? RUN, --at head-pod or --at address: {many}, as in lastbeat check run llama")
    if run is not None and (pods or where):
        faults.append("--pod and --at are of a cluster: leave them out for a RUN")
    if address is not None and (where.keys() - {"--namespace"} or (where and not pods)):
        faults.append("namespace, container and context are of pods: leave them out for an address")
    if address is not None and "://" not in address:
        faults.append(f"the address {address[:80]} is none; write it as http://HOST:8265")
    if pod is not None and "://" in pod:
        faults.append("head-pod is a pod's name; name an address by --at address=…")
    if run is not None:
        found = _of_run(one_run.read(run, given, faults), run, checkpoint_dir)
    else:
        values.settings(given, faults)
        try:
            rest = (where.get(name, "") for name in ("--namespace", "--container", "--context"))
            head = RayHead(address or "", pod, *rest)
            found = health_of(reached(head, pods), checkpoint_dir)
        except LauncherError as error:
            raise SettingsError([error.told]) from None
    tell(found, map(mask_tokens, lines(found)), as_json=as_json)
    return {"OK": exits.OK, "WARNING": exits.WARNING, "CRITICAL": exits.CRITICAL}.get(found.level, exits.UNKNOWN)


def _of_run(settings: Settings, run: str, checkpoint_dir: str | None) -> "TrainingHealth":

    store = opening.store(settings)
    view = run_watch(settings, run, at=store, places=True).look(log_lines=1)
    if view is None:
        raise run_names.unknown(store, run)
    record = RecordRepository.of_run(store, run).reload()
    return run_health(view, record.supervision if record is not None else None, checkpoint_dir)
