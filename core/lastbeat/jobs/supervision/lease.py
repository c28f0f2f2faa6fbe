"""The right to supervise a run: one of several supervisors holds the *lease*, and the others wait for it.

    one supervisor                        another one
    ──────────────                        ───────────
    take: one conditional write           reads the record with each interval, and says whose the lease is
    renew: with a tick, every two minutes
    ... dies                              sees that, where it can, or that five minutes have passed: takes it
    release: one conditional write        takes it at the next interval

It is no lock, and nothing rests on it but quiet: a job starts once because each start is claimed in the record, and
asked for by its name. Only the claims of a dead supervisor go with its lease, where its launcher leaves nothing on the
way: they are known to be its own by the token, which is that of the lease. In the record the lease is the field
``seat``.
"""

import hashlib
import os
import platform
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.jobs.launchers import processes
from lastbeat.jobs.launchers.processes import ProcessIdentity
from lastbeat.model.record import Record
from lastbeat.model.restart import LeaseHolder
from lastbeat.watch.effects import actions
from lastbeat.watch.record.repository import RecordRepository

LEASE_S: Final = 300.0
"""Seconds for which a lease is kept for a supervisor that is not heard of."""
RENEWED_BELOW_S: Final = 180.0


@dataclass(frozen=True)
class Machine:
    """A machine, or a container on it, in which a process number means one process."""

    name: str
    boot: str
    namespace: str = ""
    """Of process numbers: containers have their own."""

    @staticmethod
    def here() -> "Machine":
        """This one."""
        namespace = ""
        with suppress(OSError):
            namespace = str(Path("/proc/self/ns/pid").readlink())
        return Machine(_own_name(), processes.boot(), namespace)

    def own(self) -> ProcessIdentity | None:
        """The identity of this process."""
        return processes.identity(os.getpid())

    def lives(self, process: ProcessIdentity) -> bool:
        """Whether a process of it has not ended."""
        return processes.lives(process)


def _own_name() -> str:
    """A name that no other machine has; "" where there is none."""
    try:
        known = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    # The id itself stays on this machine.
    known = hashlib.sha256(f"lastbeat {known}".encode()).hexdigest()[:16] if known else ""
    return f"{platform.node()} {known}" if known and platform.node() else ""


class SupervisorLease:
    """One supervisor's lease of a run, held or not."""

    def __init__(self, by: str, token: str, machine: Machine | None = None) -> None:
        """``by`` is ``user@host``; ``token`` identifies this supervisor, and its claims."""
        self._machine = machine or Machine.here()
        process = self._machine.own()
        self._own = LeaseHolder(
            token,
            by,
            pid=process.pid if process is not None else os.getpid(),
            started=process.started if process is not None else 0,
            boot=self._machine.boot,
            namespace=self._machine.namespace,
            machine=self._machine.name,
        )

    def holder(self, record: Record, now: datetime) -> LeaseHolder | None:
        """The other supervisor that holds the lease, or None if it is ours or free."""
        lease = record.seat
        if lease is None or lease.token == self._own.token:
            return None
        over = lease.until is None or lease.until <= now
        return None if over or self._is_dead(lease) else lease

    def take(self, repository: RecordRepository, now: datetime) -> tuple[Record, LeaseHolder | None]:
        """Take the lease if it is free. Returns the record, and the other holder if there is one.

        Raises :class:`StoreError`, :class:`ConflictError` where the record changed at every try, and ``LookupError``
        where there is no supervision.
        """
        holder: LeaseHolder | None = None

        def change(record: Record | None) -> Record | None:
            nonlocal holder
            if record is None or record.supervision is None:
                return None
            holder = self.holder(record, now)
            return None if holder is not None else self._without_dead_claims(self.with_lease(record, now), record.seat)

        record = repository.update(change, now)
        if record is None or record.supervision is None:
            raise LookupError
        return record, holder

    @property
    def token(self) -> str:
        """Identifies this supervisor, and what it claims."""
        return self._own.token

    def _without_dead_claims(self, record: Record, before: LeaseHolder | None) -> Record:
        """``record`` without the claims of the holder ``before``, if that one is dead for certain, and so is all that
        it had begun."""
        if before is None or before.token == self._own.token or record.supervision is None or not self._is_dead(before):
            return record
        if before.boot != self._machine.boot:
            # Two machines of one image may share a name; of the lease alone that would cost quiet, no more.
            return record
        if not launcher_traits(record.supervision.launcher).submit_is_atomic:
            return record
        return actions.freed(record, before.token)

    def with_lease(self, record: Record, now: datetime) -> Record:
        """``record`` with the lease taken, or taken for longer."""
        since = record.seat.since if record.seat is not None and record.seat.token == self._own.token else None
        until = now + timedelta(seconds=LEASE_S)
        return replace(record, seat=replace(self._own, since=since or now, until=until))

    def renew(self, record: Record, now: datetime) -> Record:
        """``record`` with the lease for longer, if that is due. The same one if not, or if the lease is another's."""
        lease = record.seat
        if lease is not None and lease.token != self._own.token:
            return record
        left = lease.until - now if lease is not None and lease.until is not None else timedelta(0)
        return record if left > timedelta(seconds=RENEWED_BELOW_S) else self.with_lease(record, now)

    def release(self, repository: RecordRepository, now: datetime) -> None:
        """Give the lease back, so that another supervisor may take it. Raises :class:`StoreError`."""

        def change(record: Record | None) -> Record | None:
            if record is None or record.seat is None or record.seat.token != self._own.token:
                return None
            return replace(record, seat=None)

        repository.update(change, now)

    def _is_dead(self, lease: LeaseHolder) -> bool:
        """Whether that supervisor was a process of this machine and has ended. Of another machine that is not known."""
        if not lease.pid or not lease.started or not lease.boot:
            return False
        if lease.boot != self._machine.boot:
            # This machine has been started again since.
            return bool(lease.machine) and lease.machine == self._machine.name
        if not lease.namespace or lease.namespace != self._machine.namespace:
            return False
        return not self._machine.lives(ProcessIdentity(lease.pid, lease.started, lease.boot))
