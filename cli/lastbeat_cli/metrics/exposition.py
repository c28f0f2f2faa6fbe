"""Samples ↔ the text that Prometheus reads. Only this module imports prometheus-client, which takes 130 ms."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_strictly
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from lastbeat.model.text import clean
from lastbeat_cli.metrics.samples import Sample
from lastbeat_cli.metrics.table import FLEET, METRICS

_PLAIN = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of the classic text format, which node-exporter reads, too."""
_STRICT = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def render(samples: Iterable[Sample], fleet: str, *, strict: bool = False) -> tuple[bytes, str]:
    """``samples`` in the classic text format, or as OpenMetrics if ``strict``, and the content type."""
    by_metric: dict[str, list[Sample]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric.name, []).append(sample)
    root = clean(fleet)

    class Families(Collector):
        def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
            for metric in METRICS:
                found = by_metric.get(metric.name)
                if found:
                    family = CounterMetricFamily if metric.counts else GaugeMetricFamily
                    made = family(metric.name, metric.help, labels=(FLEET, *metric.labels))
                    for _, labels, value in found:
                        made.add_metric((root, *labels), value)
                    yield made

    registry = CollectorRegistry()
    registry.register(Families())
    if strict:
        text: bytes = generate_strictly(registry)  # type: ignore[no-untyped-call]
        return text, _STRICT
    return generate_latest(registry), _PLAIN


def read(text: str, fleet: str) -> list[Sample]:
    """The samples of ``fleet`` in a classic text, without unknown metrics. Raises ``ValueError`` for invalid text."""
    known, root, found = {metric.name: metric for metric in METRICS}, clean(fleet), []
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            metric = known.get(each.name)
            if metric is not None and {*each.labels} == {FLEET, *metric.labels} and each.labels[FLEET] == root:
                found.append(Sample(metric, tuple(each.labels[name] for name in metric.labels), each.value))
    return found
