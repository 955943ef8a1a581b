"""Python FX's results for one case and engine: the oracle that tsq is compared with."""

import copy
import functools
import hashlib
import json
import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import torch
from torch.ao.quantization import backend_config as backend_configs
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.backend_config.x86 import get_x86_backend_config
from torch.ao.quantization.fx.custom_config import ConvertCustomConfig, PrepareCustomConfig
from torch.ao.quantization.quantize_fx import convert_fx, convert_to_reference_fx, prepare_fx
from torch.utils import _pytree as pytree

from case import Case
from configuration_json import backend_to_json, equalization_json, mapping_to_json, prepare_custom_to_json
from dropped_operators import forget_dropped_operators
from quantized_operators import quantized_operators, rounded_constants

forget_dropped_operators()
HERE = Path(__file__).parent

BACKEND_CONFIGS = {
    "x86": get_x86_backend_config,
    "fbgemm": backend_configs.get_fbgemm_backend_config,
    "qnnpack": backend_configs.get_qnnpack_backend_config,
    "onednn": backend_configs.get_onednn_backend_config,
}


def _forget_freed_operators() -> None:
    """Keeps torch.jit from taking a list for an operator ("builtin cannot be used as a value").

    It knows operators by their id(). Importing FX defines overloads of quantized_decomposed, each of which frees the operator known
    until then and leaves its id in the table, where any later object may be found under it.
    """
    table = torch.jit._builtins._get_builtin_table()
    for freed in [key for key, name in table.items() if name.startswith("quantized_decomposed::")]:
        del table[freed]


_forget_freed_operators()

STAGES = ("reference", "lowered")
CRASH = "run: the process ended in a crash"


@dataclass
class FxResult:
    """Outputs are one list of leaves per evaluation batch. A stage that raised leaves its text in `errors`."""

    reference: Optional[list] = None
    lowered: Optional[list] = None
    operators: Optional[list] = None
    constants: set = field(default_factory=set)  # digests of what the lowered model rounds constants to
    errors: dict = field(default_factory=dict)  # "prepare", "reference", "lowered" -> text
    code: dict = field(default_factory=dict)  # "prepared", "reference", "lowered" -> FX's graph as Python


@dataclass
class Expectation:
    float_outputs: list
    plain: FxResult
    rewritten: Optional[FxResult]


@dataclass
class CasePaths:
    """Where the files of one (case, engine) are kept."""

    cache: Path
    case: Case
    engine: str

    @property
    def shared(self) -> Path:
        return self.cache / "models" / self.case.name

    @property
    def own(self) -> Path:
        return self.cache / self.engine / self.case.name

    @property
    def model(self) -> Path:
        return self.shared / "model.pt"

    @property
    def calibration(self) -> Path:
        return self.shared / "calibration.pt"

    @property
    def qconfig(self) -> Path:
        return self.own / "qconfig.json"

    @property
    def expectation(self) -> Path:
        return self.own / "expectation.pt"

    def configuration_files(self) -> dict:
        """What the case configures beside the QConfigMapping: the option's name -> its JSON file."""
        return {name: self.own / f"{name}.json" for name in configurations(self.case, self.engine)}


def configurations(case: Case, engine: str) -> dict:
    found = {}
    if case.backend is not None:
        found["backend_config"] = backend_to_json(case.backend(engine))
    if case.prepare_custom is not None:
        found["prepare_custom_config"] = prepare_custom_to_json(case.prepare_custom(engine))
    if case.convert_mapping is not None:
        found["convert_qconfig"] = mapping_to_json(case.convert_mapping(engine))
    if case.equalization is not None:
        found["equalization"] = mapping_to_json(case.equalization(engine), equalization_json)
    return found


def custom_config(case: Case, engine: str) -> PrepareCustomConfig:
    return case.prepare_custom(engine) if case.prepare_custom is not None else PrepareCustomConfig()


# What a graph input that arrives quantized is quantized with.
INPUT_SCALE, INPUT_ZERO_POINT = 0.04, 60


def evaluation_batches(case: Case, engine: str) -> list:
    """With the inputs quantized that the case declares so (E-11)."""
    indexes = custom_config(case, engine).input_quantized_indexes
    return [
        tuple(
            torch.quantize_per_tensor(value, INPUT_SCALE, INPUT_ZERO_POINT, torch.quint8) if index in indexes else value
            for index, value in enumerate(batch)
        )
        for batch in case.evaluation_batches()
    ]


def float_batches(case: Case, engine: str) -> list:
    def as_float(value):
        return value.dequantize() if isinstance(value, torch.Tensor) and value.is_quantized else value

    return [tuple(map(as_float, batch)) for batch in evaluation_batches(case, engine)]


def preserved_attributes(case: Case, engine: str, model) -> list:
    """As one more batch of outputs; none where the case preserves nothing (E-13)."""
    names = custom_config(case, engine).preserved_attributes
    return [[getattr(model, name) for name in names]] if names else []


def outputs_of(model, batches) -> list:
    with torch.no_grad():
        return [[_detached(leaf) for leaf in pytree.tree_leaves(model(*copy.deepcopy(batch)))] for batch in batches]


def _detached(leaf):
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:300]


def fx_models(case: Case, engine: str, model: torch.nn.Module, result: FxResult, stages=STAGES):
    """(reference, lowered) of FX, None where it raises."""
    backend = (case.backend or (lambda name: BACKEND_CONFIGS[name]()))(engine)
    custom = custom_config(case, engine)
    convert_custom = ConvertCustomConfig().set_preserved_attributes(custom.preserved_attributes)
    convert_mapping = case.convert_mapping(engine) if case.convert_mapping is not None else None
    calibration = case.calibration_batches()
    try:
        prepared = prepare_fx(
            model,
            case.mapping(engine),
            calibration[0],
            prepare_custom_config=custom,
            _equalization_config=case.equalization(engine) if case.equalization is not None else None,
            backend_config=backend,
        )
        result.code["prepared"] = prepared.code
        with torch.no_grad():
            for batch in calibration:
                prepared(*batch)
    except Exception as error:
        result.errors["prepare"] = _one_line(error)
        return None, None
    models = []
    for stage, convert in (("reference", convert_to_reference_fx), ("lowered", convert_fx)):
        if stage not in stages:
            result.errors[stage] = CRASH
            models.append(None)
            continue
        try:
            models.append(
                convert(
                    copy.deepcopy(prepared),
                    convert_custom_config=convert_custom,
                    qconfig_mapping=convert_mapping,
                    backend_config=backend,
                )
            )
            result.code[stage] = models[-1].code
        except Exception as error:
            result.errors[stage] = "convert: " + _one_line(error)
            models.append(None)
    return models


def fx_result(case: Case, engine: str, model: torch.nn.Module, stages) -> FxResult:
    result = FxResult()
    batches = evaluation_batches(case, engine)
    reference, lowered = fx_models(case, engine, model, result, stages)
    if reference is not None:
        try:
            result.reference = outputs_of(reference, batches) + preserved_attributes(case, engine, reference)
        except Exception as error:
            result.errors["reference"] = "run: " + _one_line(error)
    if lowered is not None:
        try:
            result.lowered = outputs_of(lowered, batches) + preserved_attributes(case, engine, lowered)
            graph = traced(lowered, batches[0])
            result.operators, result.constants = quantized_operators(graph), rounded_constants(graph)
        except Exception as error:
            result.errors["lowered"] = "run: " + _one_line(error)
    return result


def traced(model, batch):
    with torch.no_grad():
        return torch.jit.trace(model, copy.deepcopy(batch), strict=False, check_trace=False)


def settle_this_process(engine: str) -> None:
    """One thread, so that sums are added in one order; the engine, before anything is packed."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.backends.quantized.engine = engine


def is_cached(case: Case, engine: str, cache: Path) -> bool:
    return _is_fresh(CasePaths(cache, case, engine).own / "key", _key(case, engine))


def import_fx_fully() -> None:
    """FX imports torch._dynamo at its first trace (1.5 s): once before the forks, not in each of them."""
    warnings.simplefilter("ignore")
    prepare_fx(torch.nn.Sequential(torch.nn.Identity()).eval(), get_default_qconfig_mapping(), (torch.zeros(1),))


@functools.cache
def _digest(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _key(case: Case, engine: str) -> str:
    files = [case.source] + [str(HERE / name) for name in ("case.py", "oracle.py", "configuration_json.py", "quantized_operators.py")]
    return " ".join([torch.__version__, engine, case.name] + [_digest(file) for file in files])


def _write(path: Path, write) -> None:
    """Whole or not at all: two engines may write a case's shared files at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    write(partial)
    os.replace(partial, path)


def _is_fresh(marker: Path, key: str) -> bool:
    return marker.exists() and marker.read_text() == key


def ensure_inputs(case: Case, paths: CasePaths) -> None:
    """Writes the scripted float model, the calibration data and the QConfigMapping that tsq reads."""
    key = _key(case, "")
    if not _is_fresh(paths.shared / "key", key):
        _write(paths.model, lambda path: torch.jit.script(case.build()).save(str(path)))
        _write(paths.calibration, lambda path: torch.save(case.calibration_batches(), path))
        _write(paths.shared / "key", lambda path: path.write_text(key))


def write_expectation(case: Case, engine: str, paths: CasePaths, stages) -> None:
    expectation = Expectation(
        float_outputs=outputs_of(case.build(), float_batches(case, engine)),
        plain=fx_result(case, engine, case.build(), stages),
        rewritten=fx_result(case, engine, case.build_for_fx(), stages) if case.fx_model else None,
    )
    _write(paths.expectation, lambda path: torch.save(expectation, path))


def survives(work) -> bool:
    """Runs `work` in a forked process; false when a signal ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        work()  # an exception: raise it here, with its text
    return os.WIFEXITED(status)


def ensure_expectation(case: Case, engine: str, cache: Path) -> Expectation:
    """FX's results, from the cache when nothing that they depend on has changed."""
    paths = CasePaths(cache, case, engine)
    ensure_inputs(case, paths)
    key = _key(case, engine)
    if not _is_fresh(paths.own / "key", key):
        _write(paths.qconfig, lambda path: path.write_text(json.dumps(mapping_to_json(case.mapping(engine)), indent=1)))
        for name, configuration in configurations(case, engine).items():
            _write(paths.own / f"{name}.json", lambda path: path.write_text(json.dumps(configuration, indent=1)))
        # Some kernels corrupt the heap; then the reference model alone is run.
        if not survives(lambda: write_expectation(case, engine, paths, STAGES)):
            write_expectation(case, engine, paths, STAGES[:1])
        _write(paths.own / "key", lambda path: path.write_text(key))
    return torch.load(paths.expectation, weights_only=False)
