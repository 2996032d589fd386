"""The collector's own metrics, on a registry of their own, for ``/metrics``."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# A commit is one fsync: 3 ms on an SSD, tens on an SD card, seconds on a disk in trouble.
_COMMIT_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Counters:
    """What came in and what became of it. ``registry`` is what ``/metrics`` prints."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.received = self._counter("received", "Envelopes that arrived.", "transport")
        self.rejected = self._counter("rejected", "Envelopes refused for good.", "reason")
        self.stored = self._counter("stored", "Envelopes committed to the archive.")
        self.duplicates = self._counter("duplicates", "Envelopes that were archived already.")
        self.retries = self._counter("retries", "Envelopes sent back because of the archive.")
        self.retained = self._counter("retained", "Retained MQTT messages among the received.")
        self.dropped_acks = self._counter("dropped_acks", "Acks nobody was there to take.")
        self.archive_rows = self._gauge("archive_rows", "Envelopes in the archive.")
        self.mqtt_connected = self._gauge("mqtt_connected", "1 while subscribed at the broker.")
        self.certificate_expires = Gauge(
            "edgesweep_certificate_expires_timestamp_seconds",
            "When our own certificate runs out.",
            ["table"],
            registry=self.registry,
        )
        self.last_received = self._gauge(
            "last_received_timestamp_seconds", "When the last envelope arrived."
        )
        self.commit_seconds = Histogram(
            "edgesweep_archive_commit_seconds",
            "Time of one commit to the archive.",
            buckets=_COMMIT_BUCKETS,
            registry=self.registry,
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"edgesweep_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"edgesweep_{name}", text, registry=self.registry)
