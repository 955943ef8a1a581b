"""Trains every case with tsq and with Python FX and compares the two, bit for bit.

For each case and engine: prepare_qat_fx beside the file that tsq prepared, loaded by stock torch.jit.load; a few steps of an
optimizer on the same batches; then outputs in training and evaluation mode, losses, parameters and buffers; then the reference and the
lowered model that either side makes of it.

  run.py --jobs-by build/release/bin/quantize_cases --all
  run.py --jobs-by … --engine x86 --case 'resnet|conv2d_bn.*'
  run.py --jobs-by … --recipe best

Recipe best is no oracle's: there a model trains to finite losses, and what is converted returns what was trained.

The cases are those of the static suite that can be trained, and training_cases.py. Without --all, a seed draws an even sample.
"""

import argparse
import collections
import contextlib
import copy
import functools
import json
import os
import random
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "conformance"))

import torch
from torch.ao.quantization import disable_observer, get_default_qat_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, convert_to_reference_fx, prepare_qat_fx

import models  # noqa: F401
import oracle
import pytorch_models  # noqa: F401
import training_cases
import training_models  # noqa: F401
import training_networks  # noqa: F401
from configuration_json import mapping_to_json, prepare_custom_to_json
from jobs import FAILED, JobServer, forked
from training_cases import TrainingCase

EQUAL, DIFFERENT, FX_REFUSES, BETTER = "equal", "different", "fx refuses", "better than FX"
STEPS = 4
DIVERGES = "losses are NaN"


class Difference(Exception):
    pass


def leaves(output) -> list:
    return [leaf for leaf in oracle.pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def loss_of(output) -> torch.Tensor:
    """Something that reaches every output and has a gradient that differs from value to value."""
    total = torch.zeros(())
    for leaf in leaves(output):
        if leaf.is_floating_point():
            total = total + (leaf * leaf).mean() + leaf.mean() * 0.3
    return total


def optimizer_for(case: TrainingCase, parameters):
    parameters = [parameter for parameter in parameters if parameter.requires_grad]
    if case.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=1e-3)
    return torch.optim.SGD(parameters, lr=case.learning_rate, momentum=0.9)


def train(case: TrainingCase, model, batches: list, events) -> list:
    optimizer = optimizer_for(case, model.parameters())
    losses = []
    for step in range(STEPS):
        torch.manual_seed(step)
        events(model, step)
        optimizer.zero_grad()
        loss = loss_of(model(*batches[step % len(batches)]))
        losses.append(loss.detach().clone())
        if loss.requires_grad:
            loss.backward()
            optimizer.step()
    return losses


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return oracle_same(a, b)


def oracle_same(a, b) -> bool:
    if a.is_quantized:
        return torch.equal(a.int_repr(), b.int_repr()) and a.q_scale() == b.q_scale()
    if a.is_floating_point():
        return bool(((a == b) | (a.isnan() & b.isnan())).all())
    return torch.equal(a, b)


def check_outputs(what: str, expected: list, got: list) -> None:
    for batch, (want, have) in enumerate(zip(expected, got)):
        if len(want) != len(have):
            raise Difference(f"{what}: {len(have)} values, FX has {len(want)}")
        for index, (a, b) in enumerate(zip(want, have)):
            if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
                continue
            if not same(a, b):
                if a.shape != b.shape or a.dtype != b.dtype:
                    raise Difference(f"{what}: output {index} is {b.dtype} {list(b.shape)}, FX {a.dtype} {list(a.shape)}")
                one, other = (leaf.dequantize() if leaf.is_quantized else leaf for leaf in (a, b))
                error = float((one.double() - other.double()).abs().max())
                raise Difference(f"{what}: output {index} of batch {batch} differs by {error:.3g} at most")


def check_state(expected: dict, got: dict) -> None:
    for name, want in expected.items():
        if name not in got:
            raise Difference(f"'{name}' is missing")
        if not same(want.detach(), got[name].detach()):
            raise Difference(f"'{name}' differs by {float((want.double() - got[name].double()).abs().max()):.3g}")


def outputs_of(model, batches: list) -> list:
    with torch.no_grad():
        return [[leaf.clone() for leaf in leaves(model(*batch))] for batch in batches]


class Fx:
    def __init__(self, case: TrainingCase, engine: str) -> None:
        torch.backends.quantized.engine = engine
        self.engine = engine
        self.case = case
        float_model = case.build().train()
        # The prepared model trains the float model's own tensors: their names there are the user's.
        self.state = {**dict(float_model.named_parameters()), **dict(float_model.named_buffers())}
        self.model = prepare_qat_fx(
            float_model,
            case.mapping(engine),
            case.batches()[0],
            prepare_custom_config=case.prepare_custom(engine) if case.prepare_custom else None,
            backend_config=oracle.BACKEND_CONFIGS[engine](),
        )
        self.model.train()

    def converted(self):
        backend = oracle.BACKEND_CONFIGS[self.engine]()
        reference = convert_to_reference_fx(copy.deepcopy(self.model), backend_config=backend).eval()
        lowered = convert_fx(copy.deepcopy(self.model), backend_config=backend).eval()
        return reference, lowered


class Tsq:
    def __init__(self, case: TrainingCase, engine: str, server: JobServer, folder: Path, recipe: str = "fx") -> None:
        self.server, self.folder, self.engine, self.recipe = server, folder, engine, recipe
        model = case.build().train()
        torch.jit.save(case.file_of(model), str(folder / "model.pt"))
        job = {"model": "model.pt", "prepared": "prepared.pt"}
        if case.pass_qconfig:
            (folder / "qconfig.json").write_text(json.dumps(mapping_to_json(case.mapping(engine))))
            job["qconfig"] = "qconfig.json"
        if case.prepare_custom:
            (folder / "custom.json").write_text(json.dumps(prepare_custom_to_json(case.prepare_custom(engine))))
            job["prepare_custom_config"] = "custom.json"
        self.ask(job)
        self.model = torch.jit.load(str(folder / "prepared.pt"))

    def ask(self, job: dict) -> None:
        answer = self.server.ask({"backend": self.engine, "recipe": self.recipe, **{key: str(self.folder / value) for key, value in job.items()}})
        if answer["exit"]:
            raise Difference(answer["error"])

    def converted(self):
        torch.jit.save(self.model, str(self.folder / "trained.pt"))
        self.ask({"trained": "trained.pt", "reference": "reference.pt", "output": "lowered.pt"})
        torch.backends.quantized.engine = self.engine
        return tuple(torch.jit.load(str(self.folder / name)) for name in ("reference.pt", "lowered.pt"))


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: " + " ".join(str(error).split())[-400:]


def outputs_in_a_fork(models: list, evaluation: list, file: Path) -> list:
    """Of each model. Some of FX's models write beyond their memory, which ends that process alone."""
    child = os.fork()
    if child == 0:
        try:
            torch.save([outputs_of(model, evaluation) for model in models], file)
            os._exit(0)
        except BaseException as error:
            torch.save(first_line(error), file)
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        raise RuntimeError("the process ended in a crash")
    if status > 0:
        raise RuntimeError(torch.load(file))
    return torch.load(file)


def compare(case: TrainingCase, engine: str, server: JobServer, folder: Path) -> tuple:
    batches, evaluation = case.batches(), case.evaluation_batches()
    fx_error = ""
    try:
        fx = Fx(case, engine)
        fx_losses = train(case, fx.model, batches, case.events_in_fx)
        if any(loss.isnan() for loss in fx_losses):
            fx_error = DIVERGES
    except Exception as error:
        fx_error = first_line(error)
    try:
        tsq = Tsq(case, engine, server, folder)
        tsq_losses = train(case, tsq.model, batches, case.events_in_tsq)
    except RuntimeError as error:
        if "empty parameter list" in fx_error or fx_error and first_line(error)[-60:] == fx_error[-60:]:
            return EQUAL, "neither trains: " + fx_error
        raise Difference(f"{first_line(error)} (FX: {fx_error or 'trains'})")
    except Difference as error:
        if "no parameters that could be trained" in str(error) and "empty parameter list" in fx_error:
            return EQUAL, "refused"
        return (DIFFERENT if not fx_error else FX_REFUSES), f"{error} (FX: {fx_error or 'trains'})"
    if "empty parameter list" in fx_error:
        return EQUAL, "nothing trains in FX"
    if fx_error == DIVERGES and torch.equal(*(torch.stack(losses).nan_to_num(nan=0.5) for losses in (fx_losses, tsq_losses))):
        return EQUAL, "neither trains: " + fx_error
    if fx_error:
        return by_itself(case, tsq, tsq_losses, evaluation, fx_error)
    if wrong := case.static.one_sided_difference("reference", engine):
        return by_itself(case, tsq, tsq_losses, evaluation, wrong)
    if [float(a) for a in fx_losses] != [float(b) for b in tsq_losses]:
        raise Difference(f"losses {[float(b) for b in tsq_losses]}, FX {[float(a) for a in fx_losses]}")
    check_state(fx.state, tsq.model.state_dict())
    fx.model.eval(), tsq.model.eval()
    check_outputs("evaluation", outputs_of(fx.model, evaluation), outputs_of(tsq.model, evaluation))
    if case.converted_difference:
        return by_itself(case, tsq, tsq_losses, evaluation, case.converted_difference)
    try:
        expected = outputs_in_a_fork(fx.converted(), evaluation, folder / "fx.outputs")
    except Exception as error:
        return by_itself(case, tsq, tsq_losses, evaluation, "convert: " + first_line(error))
    converted = tsq.converted()
    trained = outputs_of(tsq.model, evaluation)  # which moves its ranges
    for what, want, model in zip(("reference", "lowered"), expected, converted):
        have = outputs_of(model, evaluation)
        if case.static.one_sided_difference(what, engine):
            check_is_near(case, trained, have, case.static.one_sided_difference(what, engine))
        else:
            check_outputs(what, want, have)
    return EQUAL, ""


def compare_best(case: TrainingCase, engine: str, server: JobServer, folder: Path) -> tuple:
    """The reference returns what training did with its last ranges, but for values that rounding moves to the neighbouring code."""
    try:
        tsq = Tsq(case, engine, server, folder, "best")
    except Difference as error:
        if "no parameters that could be trained" in str(error) or "nothing would be rounded" in str(error):
            return EQUAL, "refused"
        raise
    losses = train(case, tsq.model, case.batches(), case.events_in_tsq)
    if not all(loss.isfinite() for loss in losses):
        return EQUAL, DIVERGES
    tsq.model.apply(disable_observer)
    tsq.model.eval()
    trained = outputs_of(tsq.model, case.evaluation_batches())
    for model in tsq.converted():
        check_is_near(case, trained, outputs_of(model, case.evaluation_batches()), "recipe best")
    return EQUAL, ""


def by_itself(case: TrainingCase, tsq: Tsq, losses: list, evaluation: list, fx_error: str) -> tuple:
    """Where FX stops: the model trains to finite values, and the converted one is near it."""
    if not all(loss.isfinite() for loss in losses):
        raise Difference(f"losses {[float(loss) for loss in losses]} (FX: {fx_error})")
    tsq.model.eval()
    trained = outputs_of(tsq.model, evaluation)
    for what, model in zip(("reference", "lowered"), tsq.converted()):
        try:
            converted = outputs_of(model, evaluation)
        except RuntimeError as error:
            if first_line(error)[-40:] != fx_error[-40:]:
                raise Difference(f"{first_line(error)} (FX: {fx_error})")
            return EQUAL, "neither runs: " + fx_error
        if what == "reference" or not case.widens_ranges:
            check_is_near(case, trained, converted, fx_error)
    return BETTER, fx_error


def check_is_near(case: TrainingCase, trained: list, converted: list, reason: str) -> None:
    """On the first batch: beyond the range that was trained, codes of eight bits reach twice as far as those of `reduce_range`."""
    for want, have in zip(trained[:1], converted[:1]):
        for a, b in zip(want, have):
            if not a.is_floating_point() or a.numel() <= 1:
                continue
            noise = float((a.double() - (b.dequantize() if b.is_quantized else b).double()).pow(2).sum())
            signal = float(a.double().pow(2).sum())
            if noise > signal * 10 ** (-case.min_sqnr / 10):
                raise Difference(f"the converted model is far from the trained one: {signal:.3g} against {noise:.3g} (FX: {reason})")


def import_all() -> None:
    """What FX imports when it first runs, so that no process of a case does it again."""
    torch.backends.quantized.engine = "x86"
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1), torch.nn.BatchNorm2d(1)).train()
    inputs = (torch.zeros(1, 1, 2, 2),)
    prepared = prepare_qat_fx(model, get_default_qat_qconfig_mapping("x86"), inputs)
    prepared(*inputs).sum().backward()
    convert_fx(copy.deepcopy(prepared).eval())
    torch.jit.script(torch.nn.Linear(1, 1))


def work(job: tuple, server: JobServer, recipe: str) -> tuple:
    case, engine = job
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        try:
            verdict, text = (compare if recipe == "fx" else compare_best)(case, engine, server, Path(folder))
        except Difference as error:
            verdict, text = DIFFERENT, str(error)
    if case.known_difference and verdict == DIFFERENT:
        return BETTER, case.known_difference
    return verdict, text


def drawn(jobs: list, count: int, seed: int) -> list:
    """The same share of every group of cases that are named alike, so that no family is left out."""
    groups = collections.defaultdict(list)
    for job in jobs:
        groups[job[0].family].append(job)
    generator = random.Random(seed)
    chosen = []
    for _, members in sorted(groups.items()):
        share = max(1, round(count * len(members) / len(jobs)))
        chosen += generator.sample(members, min(share, len(members)))
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs-by", required=True, help="the program quantize_cases")
    parser.add_argument("--engine", default="all")
    parser.add_argument("--recipe", default="fx", choices=("fx", "best"))
    parser.add_argument("--case", default="", help="a regular expression of the cases' names")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--sample", type=int, default=160)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--failures", action="store_true", help="print failures only")
    options = parser.parse_args()
    jobs = [
        (case, engine)
        for case in training_cases.all_cases()
        for engine in case.engines
        if options.engine in ("all", engine) and re.fullmatch(options.case or ".*", case.name)
    ]
    if not options.all and not options.case:
        jobs = drawn(jobs, options.sample, options.seed)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    import_all()
    servers = [JobServer(options.jobs_by) for _ in range(options.processes)]
    counts = collections.Counter()

    def report(job, verdict, text, seconds) -> None:
        counts[verdict] += 1
        failed = verdict in (DIFFERENT, FAILED, FX_REFUSES)
        if failed or not options.failures:
            print(f"{verdict:14} {job[1]:8} {job[0].name} ({seconds:.1f} s) {text}", flush=True)

    begin = time.monotonic()
    forked(jobs, functools.partial(work, recipe=options.recipe), servers, report)
    for server in servers:
        server.stop()
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())), f"in {time.monotonic() - begin:.0f} s, seed {options.seed}")
    return 1 if counts[DIFFERENT] or counts[FAILED] or counts[FX_REFUSES] else 0


if __name__ == "__main__":
    sys.exit(main())
