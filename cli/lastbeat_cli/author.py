"""Who changes what is kept for a whole fleet: others will want to know."""

import getpass
import os
import platform

from lastbeat.model.text import one_line


def author() -> str:
    """``user@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container's user often has no name.
        user = str(os.getuid()) if hasattr(os, "getuid") else "somebody"
    return one_line(f"{user}@{platform.node() or 'unknown'}")[:100]
