"""What lastbeat knows of a fleet as Prometheus metrics: served at ``/metrics``, or left as a file for node-exporter."""
