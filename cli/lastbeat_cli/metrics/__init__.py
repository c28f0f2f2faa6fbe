"""Prometheus metrics of a fleet: served at ``/metrics``, or written to a file for node-exporter."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_cli.metrics.exporter import Exporter as Exporter
    from lastbeat_cli.metrics.exporter import check_token as check_token
    from lastbeat_cli.metrics.exporter import wanted as wanted
    from lastbeat_cli.metrics.exposition import render as render
    from lastbeat_cli.metrics.textfile import TextFile as TextFile

# prometheus-client is optional and slow to import, so it is imported for the first scrape or file.
__getattr__ = lazy_face(
    __name__,
    {
        "exporter": (
            "Exporter",
            "check_token",
            "wanted",
        ),
        "exposition": ("render",),
        "textfile": ("TextFile",),
    },
)
