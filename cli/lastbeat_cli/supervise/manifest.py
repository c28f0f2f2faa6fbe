"""A manifest's file: its text is kept with the supervision, so that an agent elsewhere starts the same object."""

import logging
from pathlib import Path
from typing import Any, Final

import yaml

from lastbeat.jobs.launchers.kubernetes import manifests
from lastbeat.jobs.launchers.port import JobRefusedError
from lastbeat.settings import SettingsError

_log = logging.getLogger(__name__)
_MOST_NODES: Final = 50_000
"""Most YAML nodes in a document, with aliases expanded."""


class _Loader(yaml.SafeLoader):
    """Reads YAML as kubectl does: dates stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def kept(path: str) -> str:
    """The text to keep of the manifest at ``path``, relative to the current folder. Raises :class:`SettingsError`."""
    try:
        with Path(path).expanduser().open("rb") as file:
            raw = file.read(2 * manifests.MOST_BYTES)
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise SettingsError([f"{path}: is no UTF-8 text; name the manifest of the job after --"]) from None
    except OSError as error:
        raise SettingsError([f"{path}: {error.strerror or error}; name the manifest of the job after --"]) from None
    return read(text, path)


def read(text: str, file: str) -> str:
    """The text to keep of a manifest in YAML or JSON. Raises :class:`SettingsError`."""
    try:
        documents = list(yaml.load_all(text, _Loader))
        for each in documents:
            _check_size(each)
        return manifests.manifest_text(manifests.checked(documents, file))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "cannot be read"
        raise SettingsError([f"{file}{where}: is no YAML: {problem}"]) from None
    except (RecursionError, OverflowError):
        raise SettingsError([f"{file}: is nested or repeated too often for a manifest"]) from None
    except (TypeError, ValueError) as error:
        raise SettingsError([f"{file}: holds what JSON cannot: {error}"]) from None
    except JobRefusedError as error:
        raise SettingsError([error.told]) from None


def warn(text: str) -> None:
    """Log what in a kept manifest works against restarts by lastbeat."""
    for each in manifests.warnings(manifests.read(text)[0]):
        _log.warning("%s", each)


def _check_size(value: Any) -> None:
    """Raise OverflowError if aliases expand the document beyond the limit."""
    left, waiting = _MOST_NODES, [value]
    while waiting:
        each = waiting.pop()
        left -= 1
        if left < 0:
            raise OverflowError
        waiting += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
