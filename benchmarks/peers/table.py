"""The report as text: two tables for each network, the reasons of what is missing, and the means over networks."""
from __future__ import annotations

import math
from collections.abc import Iterable

from results import ColumnResult, Latency, NetworkResult, Report

FAILED, ABSENT = 'failed', '-'


def aligned(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for first, *others in rows:
        lines.append('  '.join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:]))]))
    return '\n'.join([lines[0], '  '.join('-' * width for width in widths), *lines[1:]])


def number(value: float | None, digits: int) -> str:
    return ABSENT if value is None else f'{value:.{digits}f}'


def first(by_threads: dict[int, float]) -> float | None:
    return next(iter(by_threads.values()), None)


def accuracy_row(column: ColumnResult) -> list[str]:
    if 'quantize' in column.errors:
        return [column.name, FAILED, *[ABSENT] * 6]
    sqnr = FAILED if 'outputs' in column.errors else number(column.sqnr, 1)
    return [column.name, sqnr, number(column.agreement, 3), number(column.megabytes, 2), number(column.quantize_seconds, 1),
            number(column.quantize_megabytes, 0), number(first(column.load_seconds), 1), number(first(column.model_megabytes), 1)]


def accuracy_table(columns: list[ColumnResult]) -> str:
    header = ['', 'SQNR, dB', 'agreement', 'file, MB', 'quantize, CPU s', 'peak, MB', 'load, s *', 'memory, MB *']
    return aligned([header, *map(accuracy_row, columns)])


def time_cells(latency: Latency | None) -> list[str]:
    if latency is None or latency.median is None:
        return [FAILED if latency and latency.error else ABSENT, ABSENT]
    interval = latency.over_tsq
    over = ABSENT if interval is None else f'{interval.ratio:.2f} ({interval.low:.2f}-{interval.high:.2f})'
    return [f'{latency.median:.2f} ({latency.minimum:.2f})', over]


def threads_text(count: int) -> str:
    return '1 thread' if count == 1 else f'{count} threads'


def time_table(columns: list[ColumnResult], threads: int, sizes: list[int]) -> str:
    header = [f'{threads_text(threads)}: ms of a call, median (least)']
    for size in sizes:
        header += [f'batch {size}', '÷ tsq']
    rows = [header]
    for column in columns:
        known = {(latency.threads, latency.batch): latency for latency in column.latencies}
        rows.append([column.name, *(cell for size in sizes for cell in time_cells(known.get((threads, size))))])
    return aligned(rows)


def time_tables(network: NetworkResult) -> list[str]:
    sizes: dict[int, list[int]] = {}
    for turns in network.turns:
        sizes.setdefault(turns.threads, []).append(turns.batch)
    return [time_table(network.columns, threads, of_threads) for threads, of_threads in sizes.items()]


def reasons(network: NetworkResult) -> Iterable[str]:
    for size, why in network.refused_batches.items():
        yield f'batch {size} is left out: {why}'
    for column in network.columns:
        if column.remark:
            yield f'{column.name}: {column.remark}'
        for step, why in column.errors.items():
            yield f'{column.name}, {step}: {why}'
        for latency in column.latencies:
            if latency.error:
                yield f'{column.name}, {threads_text(latency.threads)}, batch {latency.batch}: {latency.error}'


def of_network(network: NetworkResult) -> str:
    rounds = ', '.join(f'{len(turns.orders)} ({threads_text(turns.threads)}, batch {turns.batch})' for turns in network.turns)
    data = f'calibrated on {network.calibration_samples} samples, judged by {network.test_samples} others'
    parts = [f'{network.name} ({network.note}): {data}', accuracy_table(network.columns), *time_tables(network), f'rounds: {rounds}']
    why = [f'  {reason}' for reason in reasons(network)]
    return '\n\n'.join(parts + (['\n'.join(why)] if why else []))


def means(networks: list[NetworkResult]) -> list[dict]:
    """For each column and place the geometric mean of its time divided by that of tsq, over the networks that it ran."""
    ratios: dict[tuple, list[float]] = {}
    for network in networks:
        for column in network.columns:
            for latency in column.latencies:
                if latency.over_tsq:
                    ratios.setdefault((column.key, column.name, latency.threads, latency.batch), []).append(latency.over_tsq.ratio)
    return [{'key': key, 'name': name, 'threads': threads, 'batch': batch, 'networks': len(found),
             'over_tsq': math.exp(sum(map(math.log, found)) / len(found))} for (key, name, threads, batch), found in ratios.items()]


def means_table(report: Report) -> str:
    places = list(dict.fromkeys((mean['threads'], mean['batch']) for mean in report.means))
    names = {mean['key']: mean['name'] for mean in report.means}
    known = {(mean['key'], mean['threads'], mean['batch']): mean for mean in report.means}
    header = ['time ÷ tsq, geometric mean (networks)', *(f'{threads_text(threads)}, batch {batch}' for threads, batch in places)]
    rows = [header]
    for key, name in names.items():
        found = [known.get((key, *place)) for place in places]
        rows.append([name, *(f'{mean["over_tsq"]:.2f} ({mean["networks"]})' if mean else ABSENT for mean in found)])
    return aligned(rows)


def machine(report: Report) -> str:
    about = report.machine
    versions = ', '.join(f'{name} {version}' for name, version in report.versions.items())
    place = f'{about["processor"]} ({about["kind"]}), {about["cores"]} cores, load {about["load_before"]} before; {report.began}'
    return '\n'.join([place, versions, *report.settings])
