"""Prometheus metrics of a fleet: served at ``/metrics``, or written to a file for node-exporter."""
