"""Builds what sbatch is asked to run, and refuses what it must not be asked. Pure.

A job is one job, under the name that lastbeat gave it, and gets the variables that lastbeat hands it. Options come from
the user, from the ``#SBATCH`` lines of the script and from variables of the environment, which outrank those lines.
What would break one of these three is refused with a word, or put right, wherever it is said.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from lastbeat.jobs.launchers.port import JobRefusedError
from lastbeat.model.job import JobSpec

_SCRIPTS: Final = {".sh", ".bash", ".sbatch", ".slurm", ".job"}
_SCRIPT_BYTES: Final = 1 << 20


class _Option(NamedTuple):
    name: str
    least: str
    """sbatch takes any beginning of a long name that is unlike the others."""
    short: str | None = None
    takes: bool = True
    """Whether a value follows."""


_ARRAY: Final = _Option("--array", "--ar", "-a")
_CHDIR: Final = _Option("--chdir", "--ch", "-D")
_CLUSTERS: Final = _Option("--clusters", "--cl", "-M")
_EXCLUDE: Final = _Option("--exclude", "--exclud", "-x")
_EXPORT: Final = _Option("--export", "--export")
_NAME: Final = _Option("--job-name", "--jo", "-J")
_TEST: Final = _Option("--test-only", "--te", takes=False)
_WAIT: Final = _Option("--wait", "--wait", "-W", takes=False)
_WRAP: Final = _Option("--wrap", "--wr")
_OPTIONS: Final = (_ARRAY, _CHDIR, _CLUSTERS, _EXCLUDE, _EXPORT, _NAME, _TEST, _WAIT, _WRAP)
_FLAGS: Final = "HhIkOQsuVvW"
"""Short options without a value, which may stand together."""

_AN_ARRAY: Final = "an array is several jobs; supervise each task as a run of its own"
_A_HET_JOB: Final = "heterogeneous jobs cannot be supervised; submit one component"
_CLUSTER_ADVICE: Final = "say it to lastbeat as --option=--clusters=NAME, so that it is recorded and asked about again"
_REFUSED: Final[Mapping[_Option, tuple[str, str]]] = {
    _ARRAY: (_AN_ARRAY, "leave it out"),
    _NAME: ("the job's name is lastbeat's: it is found by it", "leave it out; --run-id names the job"),
    _WRAP: ("--wrap is a script of its own", "give lastbeat the command itself"),
    _TEST: (
        "--test-only submits nothing",
        "leave it out; lastbeat restart supervise --dry-run shows what would be run",
    ),
}
"""Those among the user's options. In a script, lastbeat's own options outrank a name and the like."""

_NOT_HANDED_ON: Final = {
    # It would wait until the job has ended.
    "SBATCH_WAIT",
    # Put together again; see _export.
    "SBATCH_EXPORT",
    # Ours outrank these.
    "SBATCH_JOB_NAME",
    # It asks a login shell of each submission, and waits for it.
    "SBATCH_GET_USER_ENV",
    "SBATCH_DEBUG",
    "SLURM_EXIT_ERROR",
}
_WHICH_SLURM: Final = re.compile(r"SLURM_(?:CONF.*|JWT)")
_ABOUT_SLURM: Final = re.compile(r"SLURM_(?:CONF.*|JWT|UMASK)")
_OF_AN_ALLOCATION: Final = re.compile(r"(?:SLURM|SLURMD|PMI|PMI2|PMIX|OMPI_COMM)_.+|SRUN_DEBUG")
"""Variables that describe the job around lastbeat, and would affect the steps of the submitted one."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One call of sbatch."""

    arguments: tuple[str, ...]
    stdin: str
    """The script, where there is none on disk."""
    environment: Mapping[str, str]


def clusters(options: Sequence[str]) -> tuple[str, ...]:
    """The clusters that a user's options name; none: the one that this machine's Slurm talks to."""
    named = [value for option, value in _read(options) if option is _CLUSTERS]
    return tuple(each for each in named[-1].split(",") if each) if named else ()


def of_this_cluster(inherited: Mapping[str, str] | None, own: Mapping[str, str]) -> dict[str, str]:
    """What a job inherits, but for what says which Slurm is talked to, and as whom: sbatch has to talk to the very one
    that is asked about the job."""
    if inherited is None:
        return dict(own)
    kept = {name: text for name, text in inherited.items() if not _WHICH_SLURM.fullmatch(name)}
    return {**kept, **{name: text for name, text in own.items() if _WHICH_SLURM.fullmatch(name)}}


def submission(
    spec: JobSpec, name: str, environment: Mapping[str, str], excluded_nodes: Sequence[str] = ()
) -> Submission:
    """How ``spec`` is submitted under ``name`` from a process with ``environment``, but not to ``excluded_nodes``.

    Raises :class:`JobRefusedError`.
    """
    script, text = _script(spec)
    lines = _directives(text) if script else []
    _check(spec.options, lines, environment, script)
    wishes = _Wishes(tuple(_read(spec.options)), tuple(_read([word for line in lines for word in line])))
    asked = ["--parsable", f"--job-name={name}"]
    asked += [] if wishes.last(_CHDIR) else [f"--chdir={spec.cwd}"]
    asked += [f"--output={spec.output}"] if spec.output else []
    asked += spec.options
    # Of an option that comes twice sbatch takes the last.
    if excluded_nodes:
        known = wishes.last(_EXCLUDE)
        asked.append(f"--exclude={','.join(([known] if known else []) + list(excluded_nodes))}")
    asked += _export(wishes.last(_EXPORT, environment.get("SBATCH_EXPORT")), spec.environment)
    if script:
        return Submission((*asked, script, *spec.command[1:]), "", _environment(environment, spec.environment))
    run = f"#!/bin/sh\nexec {shlex.join(spec.command)}\n"
    return Submission(tuple(asked), run, _environment(environment, spec.environment))


class _Wishes(NamedTuple):
    by_option: tuple[tuple[_Option, str], ...]
    by_script: tuple[tuple[_Option, str], ...]

    def last(self, option: _Option, by_environment: str | None = None) -> str | None:
        """The value that sbatch would take."""
        for place in (self.by_option, ((option, by_environment),) if by_environment else (), self.by_script):
            values = [value for each, value in place if each is option]
            if values:
                return values[-1]
        return None


def _check(options: Sequence[str], lines: Sequence[Sequence[str]], environment: Mapping[str, str], script: str) -> None:
    for option, _ in _read(options):
        if option in _REFUSED:
            what, advice = _REFUSED[option]
            raise JobRefusedError(what, advice)
        if option is _WAIT:
            raise JobRefusedError("--wait keeps sbatch until the job has ended", "leave it out; lastbeat waits")
    if ":" in options:
        raise JobRefusedError(_A_HET_JOB)
    for line in lines:
        if line and line[0] in {"hetjob", "packjob"}:
            raise JobRefusedError(f"{script}: {_A_HET_JOB}")
    said = {option for line in lines for option, _ in _read(line)}
    if _ARRAY in said:
        raise JobRefusedError(f"{script}: {_AN_ARRAY}")
    if _CLUSTERS in said and not clusters(options):
        raise JobRefusedError(f"{script} names clusters", _CLUSTER_ADVICE)
    if _WAIT in said:
        raise JobRefusedError(f"{script} has --wait, which keeps sbatch until the job has ended", "take it out")
    if environment.get("SBATCH_ARRAY_INX"):
        raise JobRefusedError(f"SBATCH_ARRAY_INX is set: {_AN_ARRAY}", "unset it")
    for name in ("SBATCH_CLUSTERS", "SLURM_CLUSTERS"):
        if environment.get(name) and not clusters(options):
            raise JobRefusedError(f"{name} is set", f"unset it, and {_CLUSTER_ADVICE}")


def _script(spec: JobSpec) -> tuple[str, str]:
    """The batch script, and what is in it; none: a program is run by a script of one line, each argument quoted."""
    first = Path(spec.cwd, spec.command[0])
    try:
        with first.open("rb") as file:
            text = file.read(_SCRIPT_BYTES)
    except OSError as error:
        if first.suffix in _SCRIPTS:
            raise JobRefusedError(f"{first}: {error.strerror or error}", "name the batch script") from None
        return "", ""
    return (str(first), text.decode("utf-8", "replace")) if text.startswith(b"#!") else ("", "")


def _directives(text: str) -> list[list[str]]:
    """The words of each line that sbatch takes options from: those before the first command."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("#SBATCH"):
            found.append(_words(line[len("#SBATCH") :]))
        elif line.startswith("#PBS"):
            # Of PBS, an array is -J or -t; the rest means what it says.
            words = _words(line[len("#PBS") :])
            found.append(["--array"] if any(word.startswith(("-J", "-t")) for word in words) else [])
        elif line.strip() and not line.lstrip().startswith("#"):
            return found
    return found


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        # An open quote: sbatch takes the line to its end.
        return text.split()


def _read(words: Sequence[str]) -> Iterator[tuple[_Option, str]]:
    """The options among ``words`` that matter here, as getopt reads them."""
    left = list(words)
    while left:
        word = left.pop(0)
        given, joined, value = word.partition("=")
        if word.startswith("--"):
            option = next((each for each in _OPTIONS if _is_long(given, each)), None)
        else:
            at = next((at for at in range(1, len(word)) if word[at] not in _FLAGS or word[at] == "W"), 0)
            option = next(
                (each for each in _OPTIONS if word[:1] == "-" and each.short == f"-{word[at : at + 1]}"), None
            )
            joined = value = word[at + 1 :] if at else ""
        if option is None:
            continue
        if option.takes and not joined and left:
            value = left.pop(0)
        yield option, value


def _is_long(given: str, option: _Option) -> bool:
    return option.name.startswith(given) and given.startswith(option.least)


def _export(wish: str | None, ours: Mapping[str, str]) -> list[str]:
    """So that our variables reach the job where not all do. A list of names means, to Slurm, NONE and these besides;
    the values come from sbatch's own environment, so nothing in them is read as a list."""
    if wish is None or wish.upper() == "ALL":
        return [] if wish is None else ["--export=ALL"]
    wanted = [] if wish.upper() in {"NONE", "NIL"} else [wish]
    return [f"--export={','.join([*wanted, *sorted(ours)])}"]


def _environment(around: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """The variables of the process around, without those that would change what is submitted."""
    inside = "SLURM_JOB_ID" in around or "SLURM_JOBID" in around
    kept = {
        name: text
        for name, text in around.items()
        if name not in _NOT_HANDED_ON
        and not (inside and _OF_AN_ALLOCATION.fullmatch(name) and not _ABOUT_SLURM.fullmatch(name))
    }
    return {**kept, **ours}
