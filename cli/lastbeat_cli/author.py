"""The author of changes that apply to a whole fleet, recorded for other users."""

import getpass
import os
import platform

from lastbeat.model.text import one_line


def author() -> str:
    """``user@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # In a container the user often has no name.
        user = str(os.getuid()) if hasattr(os, "getuid") else "somebody"
    return one_line(f"{user}@{platform.node() or 'unknown'}")[:100]
