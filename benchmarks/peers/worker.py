"""One peer in a process of its own; compare.py starts it.

  worker.py quantize COLUMN FOLDER FILE    quantizes the network of a folder and writes FILE
  worker.py serve COLUMN FOLDER FILE N     loads FILE for N threads, then answers requests, one JSON value a line

Requests: {"do": "outputs"} runs the test samples and writes what comes out; {"do": "warm", "batch": B} calls the model until it no
longer becomes faster; {"do": "turn", "batch": B, "number": I, "calls": K} times K calls on batch I. Standard output has answers alone.
"""
from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import torch

import samples
from case import Folder
from columns import COLUMNS
from columns.column import Model, Setting
from memory import resident_megabytes

WARM_SECONDS = 0.2  # of a stretch of calls, of which the least time is compared with the stretch before
WARM_STRETCHES = 10  # at most
FASTER = 0.98  # of the stretch before: worth another one


def own_output() -> TextIO:
    """Standard output for answers; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    return answers


def one_sentence(error: Exception) -> str:
    """TorchScript says the reason last, below the text of the model; others say it first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = (lines[-1] if 'TorchScript interpreter' in str(error) else lines[0]) if lines else type(error).__name__
    kind = type(error).__name__
    return line if kind in line or kind in ('Impossible', 'RuntimeError') else f'{kind}: {line}'


def timed_call(model: Model, inputs: Any) -> float:
    begin = time.perf_counter()
    model.call(inputs)
    return time.perf_counter() - begin


def stretch(model: Model, inputs: Any) -> float:
    """The least time of a call."""
    least, begin = float('inf'), time.perf_counter()
    while True:
        least = min(least, timed_call(model, inputs))
        if time.perf_counter() - begin > WARM_SECONDS:
            return least


def warm(model: Model, batch: tuple) -> float:
    inputs, least = model.inputs(batch), float('inf')
    for _ in range(WARM_STRETCHES):
        now = stretch(model, inputs)
        if now > FASTER * least:
            return min(now, least)
        least = now
    return least


def turn(model: Model, batch: tuple, calls: int) -> list[float]:
    """One call that is not timed brings the model's weights and code back into the caches."""
    inputs = model.inputs(batch)
    model.call(inputs)
    return [timed_call(model, inputs) for _ in range(calls)]


class Server:
    def __init__(self, key: str, folder: Folder, file: Path, threads: int) -> None:
        self.key, self.folder = key, folder
        self.batches = torch.load(folder.batches)
        shapes = frozenset(samples.shapes_of(batch) for made in self.batches.values() for batch in made)
        COLUMNS[key].libraries()
        before, begin = resident_megabytes(), time.perf_counter()
        self.model = COLUMNS[key].load(file, Setting(threads, shapes))
        sizes = sorted(self.batches)
        self.first_calls(sizes[:1])
        stopped = time.perf_counter()
        self.megabytes = resident_megabytes() - before
        measuring = time.perf_counter() - stopped
        self.first_calls(sizes[1:])
        self.seconds = time.perf_counter() - begin - measuring

    def first_calls(self, sizes: list[int]) -> None:
        """Compile where the peer does so late. What fails here fails again, and is told, when it is to be timed."""
        for size in sizes:
            try:
                self.model.call(self.model.inputs(self.batches[size][0]))
            except Exception as error:
                print(one_sentence(error), file=sys.stderr)

    def outputs(self) -> dict:
        results = [self.model.outputs(self.model.call(self.model.inputs(sample))) for sample in torch.load(self.folder.test)]
        torch.save(results, self.folder.outputs(self.key))
        return {}

    def answer(self, request: dict) -> dict:
        match request['do']:
            case 'outputs':
                return self.outputs()
            case 'warm':
                return {'seconds': warm(self.model, self.batches[request['batch']][0])}
            case 'turn':
                return {'seconds': turn(self.model, self.batches[request['batch']][request['number']], request['calls'])}
        raise ValueError(f"unknown request '{request['do']}'")


def say(answers: TextIO, value: dict) -> None:
    answers.write(json.dumps(value) + '\n')
    answers.flush()


def serve(answers: TextIO, key: str, folder: Folder, file: Path, threads: int) -> None:
    torch.set_num_threads(threads)
    server = Server(key, folder, file, threads)
    say(answers, {'seconds': server.seconds, 'megabytes': server.megabytes})
    for line in sys.stdin:
        try:
            say(answers, server.answer(json.loads(line)))
        except Exception as error:  # what this peer cannot do must not end the run
            say(answers, {'error': one_sentence(error)})


def main() -> None:
    action, key, path, file, *threads = sys.argv[1:]
    answers, folder = own_output(), Folder(Path(path))
    try:
        with torch.no_grad():
            if action == 'quantize':
                say(answers, {'remark': COLUMNS[key].quantize(folder, Path(file))})
            else:
                serve(answers, key, folder, Path(file), int(threads[0]))
    except Exception as error:
        say(answers, {'error': one_sentence(error)})
        sys.exit(1)


if __name__ == '__main__':
    main()
