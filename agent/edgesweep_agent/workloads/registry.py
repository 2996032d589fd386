"""The named request shapes, by the names that go into every record."""

from __future__ import annotations

from edgesweep.records import Workload

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("chat-64-32", 64, 32),
        Workload("chat-128-256", 128, 256),
        Workload("chat-512-128", 512, 128),
    )
}

QUICK = WORKLOADS["chat-64-32"]
"""What is measured when nobody says: small enough to climb a few levels in two minutes."""
