"""Accuracy against latency, one picture a network, as PNG."""
from __future__ import annotations

import math
from pathlib import Path

import matplotlib

matplotlib.use('agg')  # draws into files, and needs no screen

from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.ticker import LogLocator, NullFormatter  # noqa: E402

from results import NetworkResult  # noqa: E402
from table import threads_text  # noqa: E402

TSQ_MARKER, PEER_MARKER = '*', 'o'


def drawn(axes: Axes, network: NetworkResult, threads: int, batch: int) -> None:
    """What equals float, or nearly, has no place on the scale of SQNR: its time is a line."""
    for column, color in zip(network.columns, matplotlib.colormaps['tab20'].colors):
        latency = next((x for x in column.latencies if (x.threads, x.batch) == (threads, batch) and x.median), None)
        if latency is None or column.sqnr is None:
            continue
        if column.peer == 'libtorch' or not math.isfinite(column.sqnr):
            axes.axvline(latency.median, color=color, linestyle='--', label=column.name)
        else:
            marker = TSQ_MARKER if column.peer == 'tsq' else PEER_MARKER
            axes.plot(latency.median, column.sqnr, marker, color=color, markersize=9, label=column.name)
    axes.set(title=network.name, xscale='log', xlabel=f'ms of a call, {threads_text(threads)}, batch {batch}', ylabel='SQNR, dB')
    axes.xaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter='{x:g}', minor_formatter=NullFormatter())
    axes.grid(alpha=0.3, which='both')


def save(networks: list[NetworkResult], file: Path) -> None:
    places = list(dict.fromkeys((turns.threads, turns.batch) for network in networks for turns in network.turns))
    size = (5 * len(places) + 3, 4 * len(networks))
    figure, grid = pyplot.subplots(len(networks), len(places), figsize=size, squeeze=False, layout='constrained')
    for network, row in zip(networks, grid):
        for (threads, batch), axes in zip(places, row):
            drawn(axes, network, threads, batch)
    known = {}
    for axes in grid.flat:
        handles, names = axes.get_legend_handles_labels()
        known |= dict(zip(names, handles))
    figure.legend(known.values(), known.keys(), loc='outside right upper')
    figure.savefig(file, dpi=110, format='png')
    pyplot.close(figure)
