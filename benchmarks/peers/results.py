"""What is known of a column of a network, from all steps; all of it goes to the JSON file."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from measures import Interval, ratio
from turns import Turns


@dataclass
class Latency:
    threads: int
    batch: int
    rounds: int = 0
    median: float | None = None  # milliseconds
    minimum: float | None = None
    over_tsq: Interval | None = None  # the time divided by that of tsq's fastest column
    error: str | None = None


@dataclass
class ColumnResult:
    key: str
    peer: str
    name: str
    megabytes: float | None = None  # of the file
    quantize_seconds: float | None = None  # of processor, user and system
    quantize_megabytes: float | None = None  # peak
    sqnr: float | None = None
    agreement: float | None = None
    load_seconds: dict[int, float] = field(default_factory=dict)  # by threads
    model_megabytes: dict[int, float] = field(default_factory=dict)  # by threads; resident after one call, libraries not counted
    latencies: list[Latency] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)  # step: reason
    remark: str = ''  # of the peer, on how it read the network and on its result


@dataclass
class NetworkResult:
    name: str
    note: str
    calibration_samples: int
    test_samples: int
    columns: list[ColumnResult]
    refused_batches: dict[int, str]  # that the float model itself cannot compute
    turns: list[Turns] = field(default_factory=list)


@dataclass
class Report:
    began: str
    command: list[str]
    machine: dict[str, Any]
    versions: dict[str, str]
    settings: list[str]  # sentences: what each peer was told
    networks: list[NetworkResult] = field(default_factory=list)
    means: list[dict[str, Any]] = field(default_factory=list)


def fastest_tsq(columns: list[ColumnResult], turns: Turns) -> str | None:
    """By its least median over rounds: what a user of tsq would take."""
    ours = [column.key for column in columns if column.peer == 'tsq' and column.key in turns.medians]
    return min(ours, key=lambda key: sorted(turns.medians[key])[len(turns.medians[key]) // 2], default=None)


def latencies(columns: list[ColumnResult], turns: Turns, seed: int) -> None:
    """Adds what the rounds say to each column that took part."""
    base = fastest_tsq(columns, turns)
    for column in columns:
        latency = Latency(turns.threads, turns.batch, len(turns.orders), error=turns.failures.get(column.key))
        times = turns.medians.get(column.key)
        if times:
            latency.median, latency.minimum = 1000 * sorted(times)[len(times) // 2], 1000 * turns.minima[column.key]
            latency.over_tsq = ratio(times, turns.medians[base], seed) if base else None
        if times or latency.error:
            column.latencies.append(latency)
