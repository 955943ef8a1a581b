"""Turns: all columns are timed in the same rounds, each round in an order of its own, so that a noisy moment meets all of them."""
from __future__ import annotations

import math
import random
import statistics
import time
from dataclasses import dataclass, field

from processes import Failed, Worker

TURN_SECONDS = 0.02  # of timed calls in a turn, if one call is not longer
PAUSE_SECONDS = 0.005  # after a turn: the threads of OpenMP spin some milliseconds before they sleep
FEWEST_ROUNDS = 5  # however little time there is


@dataclass
class Turns:
    """What the rounds of one batch size on so many threads have shown."""
    threads: int
    batch: int
    orders: list[list[str]] = field(default_factory=list)  # of the columns, round by round
    medians: dict[str, list[float]] = field(default_factory=dict)  # seconds of a call, for each column round by round
    minima: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def warmed(workers: dict[str, Worker], turns: Turns) -> dict[str, int]:
    """Warms the workers, and returns the number of calls of a turn of each."""
    calls = {}
    for key, worker in workers.items():
        try:
            seconds = worker.ask(do='warm', batch=turns.batch)['seconds']
            calls[key] = max(1, math.ceil(TURN_SECONDS / seconds))
        except Failed as failure:
            turns.failures[key] = str(failure)
    return calls


def take(workers: dict[str, Worker], threads: int, batch: int, batches: int, seconds: float, seed: int) -> Turns:
    turns, order = Turns(threads, batch), random.Random(seed)
    calls = warmed(workers, turns)
    begin = time.monotonic()
    while calls and (len(turns.orders) < FEWEST_ROUNDS or time.monotonic() - begin < seconds):
        keys = list(calls)
        order.shuffle(keys)
        times = round_of(workers, keys, calls, turns, number=len(turns.orders) % batches)
        turns.orders.append(keys)
        for key in keys:
            if key in times:
                turns.medians.setdefault(key, []).append(statistics.median(times[key]))
                turns.minima[key] = min(turns.minima.get(key, math.inf), *times[key])
            else:
                del calls[key]
                forget(turns, key)
    return turns


def round_of(workers: dict[str, Worker], keys: list[str], calls: dict[str, int], turns: Turns, number: int) -> dict[str, list[float]]:
    times = {}
    for key in keys:
        try:
            times[key] = workers[key].ask(do='turn', batch=turns.batch, number=number, calls=calls[key])['seconds']
        except Failed as failure:
            turns.failures[key] = str(failure)
        time.sleep(PAUSE_SECONDS)
    return times


def forget(turns: Turns, key: str) -> None:
    """A column that failed on the way has no rounds to be compared with those of others."""
    turns.medians.pop(key, None)
    turns.minima.pop(key, None)
