"""Traits of the launcher of local processes."""

from typing import Final

from lastbeat.explain.launchers.traits import LauncherTraits

TRAITS: Final = LauncherTraits(needs_state=True, submit_is_atomic=True, gone_is_dead=True, output_below_run=True)
