"""An empty QConfigMapping changes no bit: the file that tsq writes then does what the float file does.

Each model of control_flow_models.py is scripted, and traced and frozen where TorchScript can; tsq quantizes each file with a
mapping that quantizes nothing. Calls of forward one after the other, other methods and attributes must give the same values,
or raise where the float file does.

  unchanged.py --jobs-by build/release/bin/quantize_cases
"""

import argparse
import collections
import copy
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch

from control_flow_models import MODELS, Model
from jobs import JobServer

EMPTY_MAPPING = '{"": null}'


def same(a, b) -> bool:
    """Of one type and equal, tensors bit for bit; tuples with names keep them."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        alike = a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
        return alike and torch.equal(torch.isnan(a), torch.isnan(b)) and torch.equal(a.nan_to_num(), b.nan_to_num())
    if isinstance(a, tuple) and isinstance(b, tuple):
        return getattr(a, "_fields", None) == getattr(b, "_fields", None) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


def text_of(value) -> str:
    return " ".join(str(value).split())[:200]


def result_of(function, arguments):
    """What a call returns, or the last line of what it raises: source positions before it differ."""
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            return copy.deepcopy(function(*copy.deepcopy(arguments)))
    except Exception as error:
        return "raises: " + str(error).strip().splitlines()[-1]


def signature(module, name: str) -> str:
    """Names, types and defaults, without the class of self, and without the prefix that makes a class unique."""
    text = str(getattr(module, name).schema)
    return re.sub(r"___torch_mangle_\d+\.", "", re.sub(r"\(__torch__[\w.]+ self", "(self", text))


def difference(model: Model, wanted, got) -> str:
    if signature(wanted, "forward") != signature(got, "forward"):
        return f"forward is {signature(got, 'forward')}, was {signature(wanted, 'forward')}"
    for name in model.attributes:
        if not hasattr(got, name):
            return f"attribute {name} is gone"
        if not same(getattr(wanted, name), getattr(got, name)):
            return f"attribute {name} is {text_of(getattr(got, name))}, was {text_of(getattr(wanted, name))}"
    for index, call in enumerate(model.calls):
        want, have = result_of(wanted, call), result_of(got, call)
        if not same(want, have):
            return f"call {index}: {text_of(have)}, the float file gives {text_of(want)}"
    for name, arguments in model.methods:
        if not hasattr(got, name):
            return f"method {name} is gone"
        if signature(wanted, name) != signature(got, name):
            return f"{name} is {signature(got, name)}, was {signature(wanted, name)}"
        want, have = result_of(getattr(wanted, name), arguments), result_of(getattr(got, name), arguments)
        if not same(want, have):
            return f"method {name}: {text_of(have)}, the float file gives {text_of(want)}"
    for name in model.attributes:
        if not same(getattr(wanted, name), getattr(got, name)):
            return f"attribute {name} after the calls: {text_of(getattr(got, name))}, in the float file {text_of(getattr(wanted, name))}"
    return ""


def twins_of(model: Model):
    """(twin, module, what it can be asked)"""
    torch.manual_seed(1)
    eager = model.make().eval()
    scripted = torch.jit.script(eager)
    yield "scripted", scripted, model
    bare = Model(model.make, model.calls)
    try:
        frozen = torch.jit.freeze(torch.jit.script(copy.deepcopy(eager)), optimize_numerics=False)
    except Exception:
        frozen = None
    if frozen is not None:
        yield "frozen", frozen, bare
    try:
        traced = torch.jit.trace(copy.deepcopy(eager), copy.deepcopy(model.calls[0]), check_trace=False, strict=False)
    except Exception:
        return
    yield "traced", traced, bare


def check(server: JobServer, folder: Path, model: Model, module) -> str:
    files = {name: str(folder / f"{name}.pt") for name in ("model", "output", "reference")}
    module.save(files["model"])
    answer = server.ask({"backend": "x86", "qconfig": str(folder / "empty.json"), **files})
    if answer["exit"] != 0:
        return answer["error"][-300:]
    try:
        for stage in ("reference", "output"):
            found = difference(model, torch.jit.load(files["model"]), torch.jit.load(files[stage]))
            if found:
                return f"{stage}: {found}"
    except Exception as error:
        return text_of(error)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs-by", required=True, help="the built quantize_cases")
    parser.add_argument("--case", default="", help="regular expression that a model's whole name must match")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    start, counts = time.monotonic(), collections.Counter()
    server = JobServer(options.jobs_by)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "empty.json").write_text(EMPTY_MAPPING)
        for name, model in MODELS.items():
            if not re.fullmatch(options.case or ".*", name):
                continue
            for twin, module, asked in twins_of(model):
                found = check(server, folder, asked, module)
                counts["failed" if found else "equal"] += 1
                if found:
                    print(f"FAIL {twin:8} {name}: {found}", flush=True)
    server.stop()
    print(f"{counts['equal']} files unchanged, {counts['failed']} failed in {time.monotonic() - start:.0f} s")
    return 1 if counts["failed"] or not counts["equal"] else 0


if __name__ == "__main__":
    sys.exit(main())
