"""Whose files of a run are read: what the owner of a folder may not read must not be shown to him in our alerts.

Whoever owns a run's folder decides what lies in it, and may put another name of somebody else's file there (a hard
link). So a file has to belong to the folder's owner. Root and this program's own user write into others' folders, too
(a container, an epilogue of the scheduler, ``lastbeat fail``), and others write into theirs where the mode lets them;
such a file is read as long as it has this one name. (Where a file server squashes root, folder and files both belong
to nobody, and so to one user.)

A link within the root is another such name, of a file that may lie where its maker cannot go: in a closed folder of
somebody else's. So what a link leads to out of its run's folder has to belong to whoever made the link.
"""

import os
import stat
from collections.abc import Sequence
from typing import Final

from lastbeat.model import runid

_ROOT: Final = 0
_OF_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def refusal(file: os.stat_result, folder: os.stat_result) -> str | None:
    """Why ``file`` is not to be read in a run whose folder is ``folder``; None: it may be."""
    if file.st_uid == folder.st_uid:
        return None
    trusted = {_ROOT, os.geteuid()}
    expected = file.st_uid in trusted or (folder.st_uid in trusted and folder.st_mode & _OF_OTHERS)
    if expected and file.st_nlink == 1:
        return None
    whose = f"it belongs to user {file.st_uid}, and the run's folder to user {folder.st_uid}"
    return f"{whose}; it has another name elsewhere" if expected else whose


def linked_refusal(file: os.stat_result, maker: int) -> str | None:
    """Why ``file`` is not to be read by a link that ``maker`` made, out of the run's folder; None: it may be."""
    if file.st_uid == maker:
        return None
    return f"it belongs to user {file.st_uid}, and the link to it to user {maker}"


def linked_folder_refusal(folder: os.stat_result, maker: int) -> str | None:
    """The same of a folder. Root and this program's own user may lead to anybody's: its files are then judged by it."""
    return None if maker in {_ROOT, os.geteuid()} else linked_refusal(folder, maker)


def is_watchdogs(parts: Sequence[str]) -> bool:
    """Whether the key is of what watchdogs write, each as the user that it runs as. None of it is shown as it is."""
    return parts[0] == runid.SWEEP_MARK.partition("/")[0] or (len(parts) == 2 and parts[1] == runid.RECORD)
