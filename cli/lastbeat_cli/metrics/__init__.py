"""Prometheus metrics of a fleet: served at ``/metrics``, or written to a file for node-exporter."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_cli.metrics import exporter as exporter
    from lastbeat_cli.metrics import exposition as exposition
    from lastbeat_cli.metrics import textfile as textfile

# prometheus-client is optional and slow to import, so it is imported for the first scrape or file.
__getattr__ = lazy_face(__name__)
