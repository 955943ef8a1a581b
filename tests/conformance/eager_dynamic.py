"""Recurrent models that FX cannot trace must equal what PyTorch's eager API makes of them (quantize_dynamic), bit for bit.

Each model is scripted, or traced, or frozen as its case says; tsq quantizes the file without calibration data for each engine
and dynamic QConfig, and stock torch.jit.load runs the result.

  eager_dynamic.py --jobs-by build/release/bin/quantize_cases
"""

import argparse
import copy
import json
import re
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.ao.quantization import QConfigMapping, default_dynamic_qconfig, float16_dynamic_qconfig, quantize_dynamic
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from case import ENGINES
from configuration_json import mapping_to_json
from dropped_operators import forget_dropped_operators
from jobs import JobServer

forget_dropped_operators()
KINDS = {nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell}
QCONFIGS = {"int8": (default_dynamic_qconfig, ENGINES), "float16": (float16_dynamic_qconfig, ("x86", "fbgemm"))}


@dataclass(frozen=True)
class Model:
    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple]
    forms: Tuple[str, ...]
    # The same model with modules that the eager API knows, sharing the parameters' names.
    eager: Optional[Callable[[], nn.Module]] = None


MODELS: dict = {}


def model(*forms: str, inputs: Callable[[], tuple], eager=None):
    def register(cls):
        MODELS[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()] = Model(cls, inputs, forms, eager)
        return cls

    return register


def sentences():
    return (torch.randn(6, 4, 16),)


def sentences_with_lengths():
    return torch.randn(6, 4, 16), torch.tensor([6, 5, 3, 2])


def unsorted_sentences():
    return torch.randn(6, 4, 16), torch.tensor([3, 6, 2, 5])


@model("scripted", inputs=sentences_with_lengths)
class PackedLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(16, 8, 2, bidirectional=True)

    def forward(self, x: Tensor, lengths: Tensor):
        packed = pack_padded_sequence(x, lengths)
        output, (h, c) = self.lstm(packed)
        return pad_packed_sequence(output)[0], h, c


@model("scripted", inputs=unsorted_sentences)
class PackedGruOfUnsortedSentences(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(16, 8)

    def forward(self, x: Tensor, lengths: Tensor):
        output, h = self.gru(pack_padded_sequence(x, lengths, enforce_sorted=False))
        return pad_packed_sequence(output)[0], h


@model("scripted", inputs=sentences)
class LstmInABranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.LSTM(16, 8)
        self.right = nn.GRU(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            return self.left(x)[0]
        return self.right(x)[0]


@model("scripted", inputs=sentences)
class CellsInALoop(nn.Module):
    """A decoder: as many steps as there are words."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTMCell(16, 8)
        self.gru = nn.GRUCell(8, 8)
        self.rnn = nn.RNNCell(8, 8, nonlinearity="relu")
        self.out = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        h, c = torch.zeros(x.size(1), 8), torch.zeros(x.size(1), 8)
        g, r = torch.zeros(x.size(1), 8), torch.zeros(x.size(1), 8)
        steps = []
        for i in range(x.size(0)):
            h, c = self.lstm(x[i], (h, c))
            g = self.gru(h, g)
            r = self.rnn(g, r)
            steps.append(self.out(r))
        return torch.stack(steps)


@model("scripted", "traced", "frozen", "traced_frozen", inputs=sentences)
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(16, 8, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(16, 6)
        self.out = nn.Linear(6, 3)

    def forward(self, x: Tensor):
        y, (h, c) = self.lstm(x)
        y, g = self.gru(y)
        return self.out(y), h, c, g


@model("traced", "frozen", "traced_frozen", inputs=sentences)
class TracedCells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTMCell(16, 8)
        self.gru = nn.GRUCell(8, 8)
        self.tanh = nn.RNNCell(8, 8)
        self.relu = nn.RNNCell(8, 8, nonlinearity="relu")

    def forward(self, x: Tensor):
        h, c = self.lstm(x[0], (x[1][:, :8], x[2][:, :8]))
        return self.relu(self.tanh(self.gru(h, c), h), c), c


class LstmOfTheLibrary(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(16, 8)

    def forward(self, x: Tensor):
        y, (h, c) = self.lstm(x)
        return y, h, c


@model("scripted", "traced", "frozen", inputs=sentences, eager=LstmOfTheLibrary)
class LstmAsAFunction(nn.Module):
    """torch.lstm with the model's own parameters."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.Module()
        for name, shape in (("weight_ih_l0", (32, 16)), ("weight_hh_l0", (32, 8)), ("bias_ih_l0", (32,)), ("bias_hh_l0", (32,))):
            self.lstm.register_parameter(name, nn.Parameter(torch.randn(shape) * 0.3))

    def forward(self, x: Tensor):
        zeros = torch.zeros(1, x.size(1), 8)
        weights = [self.lstm.weight_ih_l0, self.lstm.weight_hh_l0, self.lstm.bias_ih_l0, self.lstm.bias_hh_l0]
        return torch.lstm(x, [zeros, zeros], weights, True, 1, 0.0, False, False, False)


def written(case: Model, form: str, path: Path) -> nn.Module:
    """The file that tsq gets; the eager model of which it is."""
    torch.manual_seed(len(form))
    eager = case.build().eval()
    inputs = case.inputs()
    module = torch.jit.trace(eager, inputs) if "traced" in form else torch.jit.script(eager)
    if "frozen" in form:
        module = torch.jit.freeze(module.eval())
    module.save(str(path))
    if case.eager is None:
        return eager
    known = case.eager().eval()
    known.load_state_dict(eager.state_dict())
    return known


def flat(value) -> list:
    return [value] if isinstance(value, Tensor) else [leaf for each in value for leaf in flat(each)]


def check(case: Model, form: str, engine: str, qconfig, server: JobServer, folder: Path) -> str:
    """Empty, or what differs."""
    torch.backends.quantized.engine = engine
    eager = written(case, form, folder / "model.pt")
    (folder / "qconfig.json").write_text(json.dumps(mapping_to_json(QConfigMapping().set_global(qconfig))))
    job = {name: str(folder / f"{name}.pt") for name in ("model", "output", "reference")}
    answer = server.ask({**job, "backend": engine, "qconfig": str(folder / "qconfig.json")})
    if answer["exit"] != 0:
        return answer["error"]
    expected = quantize_dynamic(copy.deepcopy(eager), {kind: qconfig for kind in KINDS})
    got = torch.jit.load(job["output"])
    graph = str(got.inlined_graph)
    if re.search(r"aten::(lstm|gru|lstm_cell|gru_cell|rnn_tanh_cell|rnn_relu_cell|linear)\(", graph):
        return "a recurrent operator or a linear layer stayed float"
    inputs = case.inputs()
    with torch.no_grad():
        for sign in (1.0, -1.0):
            batch = (inputs[0] * sign, *inputs[1:])
            for index, (want, have) in enumerate(zip(flat(expected(*batch)), flat(got(*batch)))):
                if want.shape != have.shape or not torch.equal(want, have):
                    return f"output {index} differs, largest {float((want - have).abs().max()):.3g}"
        torch.jit.load(job["reference"])(*inputs)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs-by", required=True, help="the built quantize_cases")
    parser.add_argument("--engine", default=",".join(ENGINES), help="comma separated (default: %(default)s)")
    parser.add_argument("--case", default="", help="regular expression that a model's whole name must match")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    server, start, passed, failed = JobServer(options.jobs_by), time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, case in MODELS.items():
            if options.case and not re.fullmatch(options.case, name):
                continue
            for form in case.forms:
                for kind, (qconfig, engines) in QCONFIGS.items():
                    for engine in set(options.engine.split(",")).intersection(engines):
                        try:
                            difference = check(case, form, engine, qconfig, server, Path(folder))
                        except Exception as error:
                            difference = " ".join(str(error).split())[-300:]
                        passed, failed = passed + (not difference), failed + bool(difference)
                        if difference:
                            print(f"FAIL {name} {form} {kind} {engine}: {difference}", flush=True)
    server.stop()
    print(f"{passed} passed, {failed} failed in {time.monotonic() - start:.0f} s")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
