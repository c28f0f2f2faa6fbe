"""Writes the commit and its date into sdist and wheel, for ``lastbeat --version``; hatchling calls it.

A wheel that is made from an sdist takes the file that is in it.
"""

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "cli/lastbeat_cli/built.py"
_PLACES = {"sdist": "cli/lastbeat_cli", "wheel": "lastbeat_cli"}


class CommitHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, unless this is an editable install, which asks git."""
        root = Path(self.root)
        module = runpy.run_path(str(root / MODULE))
        built = module["of_checkout"](root)
        if built and version == "standard":
            self.written = tempfile.TemporaryDirectory()
            file = Path(self.written.name) / module["FILE"]
            file.write_text(f"{built}\n", "utf-8")
            build_data["force_include"][str(file)] = f"{_PLACES[self.target_name]}/{module['FILE']}"
