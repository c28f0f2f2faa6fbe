"""What the Lambda function's zip is built from: this checkout, or what an installed lastbeat brought along.

A wheel holds ``infra/`` and ``lambda/`` beside this module (pyproject.toml puts them there). They are laid out as a
checkout has them, in a folder that lasts: SAM keeps there what ``--guided`` was answered.
"""

import os
import shutil
from pathlib import Path
from typing import Final

import lastbeat
from lastbeat.settings import Settings, SettingsError

_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_BROUGHT: Final = Path(__file__).resolve().parent / "deployed"
_INFRA: Final = ("template.yaml", "package.sh", "bundle.py", "requirements.txt", "requirements-fast.txt")


def root(settings: Settings) -> Path:
    """The folder with ``infra/``. Of an installed lastbeat it may have to be laid out first. Raises
    :class:`SettingsError`."""
    if (_CHECKOUT / "infra" / "template.yaml").is_file():
        return _CHECKOUT
    if settings.state_dir is None:
        raise SettingsError(["there is no folder to build in; set LASTBEAT_STATE_DIR"])
    return settings.state_dir / "deploy"


def lay_out(folder: Path) -> None:
    """Lay out in ``folder`` what an installed lastbeat brought along, anew. A checkout is left alone. Raises
    :class:`SettingsError`."""
    if folder == _CHECKOUT:
        return
    try:
        (folder / "infra").mkdir(parents=True, exist_ok=True)
        for name in _INFRA:
            shutil.copyfile(_BROUGHT / "infra" / name, folder / "infra" / name)
        shutil.copyfile(_BROUGHT / "LICENSE", folder / "LICENSE")
        _renew(_BROUGHT / "lambda", folder / "lambda")
        _renew(Path(lastbeat.__file__).resolve().parent, folder / "core" / "lastbeat")
    except OSError as fault:
        why = f"{os.strerror(fault.errno)}: {fault.filename}" if fault.errno else str(fault)
        raise SettingsError([f"what is deployed cannot be put together in {folder}: {why}"]) from None


def _renew(source: Path, target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
