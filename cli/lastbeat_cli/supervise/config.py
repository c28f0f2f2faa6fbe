"""A supervision file: reads YAML into a wanted supervision, or all faults with their lines, and writes it as JSON.

Relative paths are relative to ``cwd``, which is the current folder unless the file names one.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from lastbeat.explain import handwritten
from lastbeat.explain.handwritten import UNSAID, Document, HandwrittenModel, MaybeBlank, Name, Text
from lastbeat.explain.launchers.traits import LAUNCHERS
from lastbeat.explain.signals import loading as signals
from lastbeat.jobs.launchers.kubernetes.manifests import MOST_BYTES
from lastbeat.jobs.restarts import files, loading
from lastbeat.jobs.restarts.names import KnownNames
from lastbeat.model.document import clean
from lastbeat.model.file_fault import FileFault
from lastbeat.model.secrets import is_secret
from lastbeat.model.text import nearest
from lastbeat.settings import SettingsError, catalogues, table
from lastbeat_cli.supervise import manifest

MOST_ARGUMENTS: Final = 10_000
_SIZE_LIMIT: Final = 1_000_000
_NOT_IN_YAML: Final = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
LIMITS: Final = {
    "stale_minutes": table.STALE_MINUTES.name,
    "stall_minutes": table.STALL_MINUTES.name,
    "start_minutes": table.START_MINUTES.name,
}
"""Key in the file → name of the setting."""


@dataclass(frozen=True)
class WantedSupervision:
    """A supervision as the user asks for it. An empty field was not given."""

    run_id: str = ""
    launcher: str = ""
    command: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    cwd: str = ""
    """An absolute path."""
    environment: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    logs: tuple[str, ...] = ()
    policy: str = ""
    """The text of a restart policy's file."""
    policy_name: str = ""
    checkpoints: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Name of a setting → its text: root, signals, limits, restart delay, on_permanent."""
    inactivity_minutes: float | None = None
    interval_s: float | None = None
    manifest: str = ""
    """Kubernetes: the text of the manifest that the command names. Empty: the file has not been read."""


# The file.


def _known_launcher(name: str) -> str:
    if name not in LAUNCHERS:
        raise ValueError(f"there is no launcher {name!r}{nearest(name, LAUNCHERS)}; there are: {', '.join(LAUNCHERS)}")
    return name


def _root(text: str) -> str:
    table.MONITORING_ROOT.parse(text)
    return text


def _refuse(what: str) -> Any:
    raise ValueError(what)


def _arguments(value: object) -> object:
    said = "is text; it has to be a list, [program, argument, …], because no shell reads it"
    return value if not isinstance(value, str) else _refuse(said)


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _texts(value: object) -> object:
    """The mapping with numbers as text, since people write ``OMP_NUM_THREADS: 8``."""
    if not isinstance(value, dict):
        return value
    return {key: str(each) if type(each) in {int, float} else each for key, each in value.items()}


def _fault_of(name: str, value: str) -> str | None:
    """Why this variable may not stand in a supervision file, or None if it may."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
        return f"environment: {name[:60]!r} is no name of a variable"
    if is_secret(name, value):
        return (
            f"environment: {name} looks like a secret, and what stands here is recorded beside the run; leave it out: "
            "the job also has the environment in which supervise was called"
        )
    return None


Minutes = Annotated[float, Field(gt=0, le=10**7, strict=False)]
Texts = Annotated[list[Text], BeforeValidator(_listed, json_schema_input_type=Text | list[Text])]


class SupervisedLimits(HandwrittenModel):
    """When the run is given up, in minutes. Limits that the run states itself, or that its fleet has, outrank these."""

    stale_minutes: Minutes = UNSAID
    stall_minutes: Minutes = UNSAID
    inactivity_minutes: Minutes = UNSAID
    """Longest time without a log line or a step, in minutes, where stall_minutes is not set."""
    start_minutes: Annotated[float, Field(ge=0, le=10**7, strict=False)] = UNSAID


class SupervisionFile(HandwrittenModel):
    """How a run is started, watched and restarted."""

    run_id: Text = UNSAID
    root: Annotated[Text, AfterValidator(_root)] = UNSAID
    """The fleet root."""
    launcher: Annotated[Text, AfterValidator(_known_launcher)] = UNSAID
    command: Annotated[
        list[MaybeBlank], BeforeValidator(_arguments), Field(min_length=1, max_length=MOST_ARGUMENTS)
    ] = UNSAID
    options: Annotated[list[Text], BeforeValidator(_arguments), Field(max_length=MOST_ARGUMENTS)] = UNSAID
    """Options for the launcher."""
    cwd: Text = UNSAID
    environment: Annotated[dict[Text, MaybeBlank], BeforeValidator(_texts)] = UNSAID
    """Variables in addition to those that the job has anyway."""
    output: Text = UNSAID
    logs: Annotated[Texts, Field(max_length=table.MOST_LOGS)] = UNSAID
    signals: Texts = UNSAID
    policy: Any = UNSAID
    """A name, the path of a file, or the policy itself."""
    policy_name: Name = UNSAID
    """Name of a policy whose lines stand in this file."""
    checkpoints: Text = UNSAID
    limits: SupervisedLimits = UNSAID
    interval_seconds: Annotated[float, Field(ge=0.1, le=3600, strict=False)] = UNSAID
    restart_delay_seconds: Annotated[float, Field(ge=0, le=10**6, strict=False)] = UNSAID
    on_permanent: Literal["end", "leave"] = UNSAID
    """Whether a failed job that is not restarted and still runs is ended. Default: as the policy says."""
    manifest: Annotated[str, Field(max_length=MOST_BYTES), AfterValidator(handwritten.not_blank)] = UNSAID
    """Kubernetes: the text of the manifest, in place of the file that the command names."""
    plan: Any = UNSAID
    """Added by --dry-run for people, and ignored."""


def load(path: str) -> WantedSupervision:
    """The supervision in the file ``path``. Raises :class:`SettingsError` with all faults in it."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_SIZE_LIMIT + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if not isinstance(error, OSError):
            raise SettingsError([f"--config {path}: is no UTF-8 text; save it as UTF-8"]) from None
        raise SettingsError([f"--config {path} cannot be read: {error.strerror or error}; check the path"]) from None
    faults: list[FileFault] = []
    found = read(text, path, faults)
    if faults or found is None:
        raise SettingsError([str(each) for each in sorted(set(faults))])
    return found


def read(text: str, file: str, faults: list[FileFault]) -> WantedSupervision | None:
    """The supervision in ``text``, or None. Adds what is wrong to ``faults``."""
    document = handwritten.read(text, file, faults)
    if document is None:
        return None
    if not isinstance(document.value, dict):
        faults.append(FileFault(file, 0, f"has to be 'key: value' lines ({', '.join(SupervisionFile.model_fields)})"))
        return None
    found, _ = handwritten.checked(SupervisionFile, document, faults)
    if found is None:
        return None
    for name, value in (found.environment or {}).items():
        if (why := _fault_of(name, value)) is not None:
            faults.append(FileFault(file, document.key_line("environment", name), why))
    cwd = Path(found.cwd or "").expanduser().absolute()
    settings = {
        name: str(number) for key, name in LIMITS.items() if (number := getattr(found.limits, key, None)) is not None
    }
    if found.root is not None:
        settings[table.MONITORING_ROOT.name] = found.root
    if found.signals is not None:
        settings[table.SIGNALS.name] = ",".join(_catalogue(each, cwd) for each in found.signals)
    if found.restart_delay_seconds is not None:
        settings[table.RESTART_DELAY_SECONDS.name] = str(found.restart_delay_seconds)
    if found.on_permanent is not None:
        settings[table.ON_PERMANENT.name] = found.on_permanent
    policy_name, policy = _policy(found, document, cwd, settings.get(table.SIGNALS.name), faults)
    return WantedSupervision(
        found.run_id or "",
        found.launcher or "",
        tuple(found.command or ()),
        tuple(found.options or ()),
        "" if found.cwd is None else str(cwd),
        dict(found.environment or {}),
        found.output or "",
        tuple(place(each, cwd) for each in found.logs or ()),
        policy,
        policy_name,
        place(found.checkpoints, cwd) if found.checkpoints else "",
        settings,
        getattr(found.limits, "inactivity_minutes", None),
        found.interval_seconds,
        manifest.read(found.manifest, f"{file}: manifest") if found.manifest else "",
    )


def place(path: str, cwd: Path) -> str:
    """``path`` made absolute; a URL stays as it is."""
    return path if "://" in path else str(Path(cwd, Path(path).expanduser()))


def _catalogue(name: str, cwd: Path) -> str:
    return place(name, cwd) if signals.is_path(name) else name


def policy_of(name_or_path: str, cwd: Path) -> tuple[str, str]:
    """Name and text of that restart policy. Raises :class:`RestartPolicyError`."""
    if "/" not in name_or_path and not name_or_path.endswith((".yaml", ".yml")):
        return name_or_path, loading.text_of(name_or_path)
    path = place(name_or_path, cwd)
    return Path(path).stem, loading.text_of(path)


def _policy(
    found: SupervisionFile, document: Document, cwd: Path, catalogue: str | None, faults: list[FileFault]
) -> tuple[str, str]:
    """Name and text of the restart policy; two empty texts if none is named."""
    said, file = found.policy, document.file
    if found.policy_name is not None and not isinstance(said, dict):
        faults.append(FileFault(file, document.line("policy_name"), "policy_name belongs to a policy that stands here"))
    if said is None:
        return "", ""
    if isinstance(said, str):
        try:
            return policy_of(said, cwd)
        except loading.RestartPolicyError as error:
            faults += [FileFault(file, document.line("policy"), f"policy: {fault}") for fault in error.faults]
            return "", ""
    if not isinstance(said, dict):
        faults.append(
            FileFault(file, document.line("policy"), "policy: has to be a name, a path, or a policy's own lines")
        )
        return "", ""
    own = Document(file, said, {at[1:]: lines for at, lines in document.lines.items() if at[:1] == ("policy",)})
    name = found.policy_name or found.run_id or Path(file).stem
    try:
        known = KnownNames.of(catalogues.catalogue(catalogue or table.DEFAULT_CATALOGUE))
    except ValueError:
        # The faults of the catalogue itself are reported when the settings are read.
        known = KnownNames.of(signals.load(signals.DEFAULT))
    files.of_document(own, name, known, faults)
    return name, json.dumps(said)


# And back.


def document(asked: WantedSupervision) -> dict[str, Any]:
    """``asked`` as the content of a supervision file, without empty fields."""
    settings = asked.settings
    limits = {key: float(settings[name]) for key, name in LIMITS.items() if name in settings}
    if asked.inactivity_minutes is not None:
        limits["inactivity_minutes"] = asked.inactivity_minutes
    delay = settings.get(table.RESTART_DELAY_SECONDS.name)
    said: dict[str, Any] = {
        "run_id": asked.run_id,
        "root": settings.get(table.MONITORING_ROOT.name),
        "launcher": asked.launcher,
        "command": list(asked.command),
        "options": list(asked.options),
        "cwd": asked.cwd,
        "environment": dict(asked.environment),
        "manifest": asked.manifest,
        "output": asked.output,
        "logs": list(asked.logs),
        "signals": [each for each in settings.get(table.SIGNALS.name, "").split(",") if each],
        **_policy_said(asked),
        "checkpoints": asked.checkpoints,
        "limits": limits,
    }
    said = {key: value for key, value in said.items() if value}
    if asked.interval_s is not None:
        said["interval_seconds"] = asked.interval_s
    if delay is not None:
        said["restart_delay_seconds"] = float(delay)
    if table.ON_PERMANENT.name in settings:
        said["on_permanent"] = settings[table.ON_PERMANENT.name]
    return said


def _policy_said(asked: WantedSupervision) -> dict[str, Any]:
    if asked.policy_name in loading.names() and asked.policy == loading.shipped_text(asked.policy_name):
        return {"policy": asked.policy_name}
    read_again = handwritten.read(asked.policy, asked.policy_name, []) if asked.policy else None
    return {"policy": read_again.value, "policy_name": asked.policy_name} if read_again is not None else {}


def dump(said: Mapping[str, Any]) -> str:
    """``said`` as one line of JSON that is valid YAML, too: YAML has no surrogate pairs."""
    text = json.dumps(clean(dict(said)), allow_nan=False, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def over(options: WantedSupervision, file: WantedSupervision, name: str) -> tuple[WantedSupervision, list[str]]:
    """The file's supervision overridden by the options, and a line for each overridden key of the file ``name``."""
    wins: list[str] = []
    changes: dict[str, Any] = {}
    for key, option, told in _WINNING:
        mine, other = getattr(options, key), getattr(file, key)
        if mine in ((), "", None):
            continue
        changes[key] = mine
        if other not in ((), "", None, mine):
            wins.append(f"{option} wins over {told} in {name}")
    if options.policy:
        changes["policy"] = options.policy
    for setting, text in options.settings.items():
        if file.settings.get(setting, text) != text:
            wins.append(f"{_OPTIONS[setting]} wins over {name}")
    return replace(file, **changes, settings={**file.settings, **options.settings}), wins


_WINNING: Final = (
    ("run_id", "--run-id", "run_id"),
    ("launcher", "--launcher", "launcher"),
    ("command", "the command", "command"),
    ("options", "--option", "options"),
    ("output", "--output", "output"),
    ("logs", "--log", "logs"),
    ("policy_name", "--policy", "policy"),
    ("checkpoints", "--checkpoint-dir", "checkpoints"),
    ("interval_s", "--interval", "interval_seconds"),
)
"""Field, its option, and the key in the file that the option overrides."""
_OPTIONS: Final = {each.name: each.option for each in (table.MONITORING_ROOT, table.SIGNALS, table.ON_PERMANENT)}
