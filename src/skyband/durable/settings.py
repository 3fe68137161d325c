"""How much a durable monitor keeps, and when it writes a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Bounds. Bytes and rows; the defaults keep a folder below some hundred megabytes beside two snapshots."""

    segment_bytes: int = 32 * MEGABYTE  # a new segment begins once the last one has so many
    # a snapshot after so many bytes of steps, and never less than its own size
    snapshot_bytes: int = 64 * MEGABYTE
    snapshot_steps: int = 20_000  # or after so many steps, which also take their time to be repeated
    group_bytes: int = 32 * MEGABYTE  # steps that wait are flushed together up to so many bytes
    history_steps: int = 10_000  # so many steps' changes can be read again
    history_changes: int = 200_000  # but not more changes than these in all
    keys: int = 100_000  # so many idempotency keys are remembered
    background: bool = True  # snapshots are written beside the stream; else a step waits for them
