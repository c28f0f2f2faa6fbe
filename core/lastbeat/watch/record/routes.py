"""The routes of a fleet: a file that people wrote beside the runs, and what it was compiled to.

The file decides. The compiled table carries the digest of its file. If the file was replaced by hand, the next pass
that can read YAML compiles it; a pass that cannot (the Lambda function) reports that.
"""

import hashlib
import json
import logging
from datetime import datetime

from lastbeat.model.codec import DamagedError, NewerError, codec, without_schema
from lastbeat.model.data import dataclass
from lastbeat.model.route import ROUTES, ROUTES_FILE, InvalidRouteError, RouteTable
from lastbeat.model.text import fit, one_line
from lastbeat.stores.port import Blob, DeniedError, Expect, Store, StoreError
from lastbeat.watch.decide.routes import check
from lastbeat.watch.record.fleet_document import ASK_AGAIN_S, GOOD_FOR_S, Remembered

log = logging.getLogger(__name__)

SCHEMA = 1
LIMIT_BYTES = 512 * 1024
FILE_LIMIT_BYTES = 64 * 1024
_WHY_LIMIT = 300


@dataclass(frozen=True, slots=True)
class RoutesNow:
    """The current routes. Without table and fault there are no routes, and every alert goes everywhere."""

    table: RouteTable | None = None
    fault: str | None = None
    """Why there is no table although there may be routes; then every alert goes everywhere, with a note."""


class Routes:
    """Reads on the first question and remembers. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read = Remembered(RoutesNow(), self._fetch)

    def now(self, at: datetime) -> RoutesNow:
        """The routes at ``at``, by the store's clock. Never raises. Asks the store once a minute at most."""
        return self._read.at(at)

    @property
    def held(self) -> RoutesNow:
        """The routes that were last read, however old. Makes no request."""
        return self._read.held

    def _fetch(self) -> tuple[RoutesNow, float]:
        try:
            return look(self._store), GOOD_FOR_S
        except StoreError as error:
            log.warning("the routes cannot be read: %s", error)
            if error.retryable and self.held.table is not None:
                # They were valid a moment ago.
                return self.held, ASK_AGAIN_S
            return RoutesNow(fault=f"{ROUTES_FILE} cannot be read: {error}"), ASK_AGAIN_S


def look(store: Store) -> RoutesNow:
    """The current routes, from the file and its compiled table. Raises :class:`StoreError`."""
    source = read_file(store)
    if source is None:
        return RoutesNow()
    if source.size_bytes > len(source.body):
        return RoutesNow(fault=_why(f"{ROUTES_FILE} has {source.size_bytes:,} bytes; {FILE_LIMIT_BYTES:,} is the most"))
    blob = store.read(ROUTES, LIMIT_BYTES)
    found = _decoded(blob, source) if blob is not None else None
    return found if found is not None else _compile(store, source, blob)


def read_file(store: Store) -> Blob | None:
    """The file as people wrote it, or None if there is none. Raises :class:`StoreError`."""
    try:
        return store.read(ROUTES_FILE, FILE_LIMIT_BYTES)
    except DeniedError:
        # Without read access even a missing key is refused, and most fleets have no routes.
        folder = ROUTES_FILE.rpartition("/")[0] + "/"
        page = store.list(folder, start_after=ROUTES_FILE[:-1], limit=1)
        if any(entry.key == ROUTES_FILE or entry.fault is not None for entry in page.entries):
            raise
        return None


def _decoded(blob: Blob, source: Blob) -> RoutesNow | None:
    """The compiled table, or why it cannot be followed; None if it is of another file, or damaged."""
    try:
        table = decode(blob)
        if table.source != digest(source.body):
            return None
        check(table)
    except NewerError as error:
        return RoutesNow(fault=_why(f"{ROUTES} cannot be used: {error}"))
    except InvalidRouteError as error:
        return RoutesNow(fault=_why(f"{ROUTES} cannot be followed: {error}"))
    except DamagedError as error:
        log.info("%s is damaged, and is rebuilt: %s", ROUTES, error)
        return None
    return RoutesNow(table)


def _compile(store: Store, source: Blob, blob: Blob | None) -> RoutesNow:
    try:
        from lastbeat.watch.record.routes_file import compiled  # noqa: PLC0415 - YAML and pydantic: only for a file by hand
    except ImportError:
        return RoutesNow(fault=_why(f"{ROUTES_FILE} was changed and not compiled; run: lastbeat routes set FILE"))
    table, faults = compiled(source.body, ROUTES_FILE)
    if table is None:
        return RoutesNow(fault=_why(str(faults[0])))
    try:
        check(table)
    except InvalidRouteError as error:
        return RoutesNow(fault=_why(f"{ROUTES_FILE} cannot be followed: {error}"))
    try:
        # For passes that cannot read YAML, and to save the others the work.
        store.write(ROUTES, encode(table), blob.version if blob is not None else Expect.NOTHING)
    except StoreError as error:
        log.info("what %s was compiled to could not be kept: %s", ROUTES_FILE, error)
    return RoutesNow(table)


def remove(store: Store) -> bool:
    """Remove the routes: every alert goes everywhere. Returns whether there were any. Raises :class:`StoreError`."""
    there = store.read(ROUTES_FILE, 1) is not None or store.read(ROUTES, 1) is not None
    # Without its file a compiled table does not count.
    store.delete(ROUTES_FILE)
    store.delete(ROUTES)
    return there


def encode(table: RouteTable) -> bytes:
    """The document that passes read."""
    document = {"schema": SCHEMA, **codec(RouteTable).document(table)}
    return json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def decode(blob: Blob) -> RouteTable:
    """The table. Raises :class:`DamagedError`, or :class:`NewerError` if only a newer lastbeat can read it."""
    if blob.size_bytes > len(blob.body):
        raise DamagedError(f"it has {blob.size_bytes:,} bytes")
    try:
        document = json.loads(blob.body)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is not JSON ({type(error).__name__})") from error
    return codec(RouteTable).read(without_schema(document, SCHEMA))


def digest(body: bytes) -> str:
    """Identifies a file's content."""
    return hashlib.sha256(body).hexdigest()


def _why(text: str) -> str:
    return fit(one_line(text), _WHY_LIMIT)
