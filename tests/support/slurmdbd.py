"""The accounting of a Slurm cluster: slurmdbd, on a MariaDB of its own; everything of both lies in one folder."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from support.waiting import LIMIT_S, until

_TOOLS = ("slurmdbd", "mariadbd", "mariadb-install-db", "mariadb")
WHY_NOT = (
    "slurmdbd and MariaDB are not installed: apt-get install slurmdbd mariadb-server-core mariadb-client-core"
    if any(shutil.which(tool) is None for tool in _TOOLS)
    else None
)
"""Why there can be no accounting here; None: there can."""
_START_S = LIMIT_S

CLUSTER_LINES = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={munge}
"""
"""For the cluster's slurm.conf."""
_CONF = """\
AuthType=auth/munge
AuthInfo=socket={munge}
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
"""
_GRANT = "CREATE DATABASE slurm_acct_db; CREATE USER slurm@localhost; GRANT ALL ON slurm_acct_db.* TO slurm@localhost"
Start = Callable[[list[str], dict[str, str]], None]
"""Starts a daemon that is ended with the cluster."""


def begin(folder: Path, host: str, port: int, munge: Path, start: Start) -> dict[str, str]:
    """Start both, with ``munge`` as the cluster has it. Returns what the environment of slurmdbd has beside ours."""
    data, at = folder / "mysql", folder / "mysql.sock"
    mine = ["--no-defaults", "--user=root", f"--datadir={data}"]
    with (folder / "mysql.said").open("ab") as said:
        install = ["mariadb-install-db", *mine, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(install, stdout=said, stderr=said, timeout=_START_S, check=True)
    small = ["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0"]
    small += ["--performance-schema=OFF", "--skip-log-bin", "--skip-name-resolve", "--innodb-lock-wait-timeout=900"]
    # Nobody but who reaches the folder reaches it.
    start(["mariadbd", *mine, f"--socket={at}", f"--pid-file={folder}/mysql.pid", "--skip-networking", *small], {})
    query = ["mariadb", "--no-defaults", f"--socket={at}", "--user=root", "--execute"]
    until(lambda: _succeeds([*query, "SELECT 1"]), bool, _START_S)
    subprocess.run([*query, _GRANT], timeout=_START_S, check=True)
    conf = folder / "slurmdbd.conf"
    conf.write_text(_CONF.format(folder=folder, host=host, port=port, munge=munge))
    conf.chmod(0o600)
    # Of the database's client library: where MariaDB listens.
    more = {"SLURM_CONF": str(folder / "slurm.conf"), "MYSQL_UNIX_PORT": str(at)}
    start(["slurmdbd", "-D"], more)
    return more


def register(conf: Path, cluster: str) -> None:
    """Make the cluster known to its accounting, once that answers."""
    known = {**os.environ, "SLURM_CONF": str(conf)}
    until(lambda: _succeeds(["sacctmgr", "--noheader", "show", "cluster"], known), bool, _START_S)
    done = subprocess.run(
        ["sacctmgr", "--immediate", "--quiet", "add", "cluster", cluster],
        env=known,
        capture_output=True,
        timeout=_START_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _succeeds(command: list[str], environment: dict[str, str] | None = None) -> bool:
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
