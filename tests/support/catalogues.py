"""Catalogues of signals from texts."""

from collections.abc import Mapping

from lastbeat.explain.signals.loading import load_setting
from lastbeat.model.signal import Catalogue


def read(files: Mapping[str, str], setting: str = "/own.yaml") -> Catalogue:
    """What ``setting`` names, where there are ``files`` and no others."""

    def text_of(name: str) -> str:
        if name not in files:
            raise FileNotFoundError(2, "No such file or directory", name)
        return files[name]

    return load_setting(setting, text_of)


def own(text: str) -> Catalogue:
    """One file that stands on nothing."""
    return read({"/own.yaml": f"extends: []\n{text}"})
