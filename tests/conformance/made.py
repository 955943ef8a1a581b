"""tsq's side of a case: quantizes it, then loads and runs the files as any LibTorch program would."""

import subprocess
import zlib
from pathlib import Path
from typing import List, Optional

import torch

import oracle
from case import Case
from jobs import JOB_SECONDS, JobServer, one_thread
from quantized_operators import constants, rounded_constants

# One in so many cases goes through the command itself, whose start costs more than most cases; the others through a
# process that serves many.
COMMAND_SHARE = 20


class Made:
    """Either `refusal`, or outputs and operators."""

    def __init__(self) -> None:
        self.exit_code = 0
        self.refusal = ""
        self.crash = ""
        self.reference: Optional[list] = None
        self.lowered: Optional[list] = None
        self.operators: list = []
        self.constants: set = set()  # digests of the tensors that the lowered model reads
        self.rounded_constants: set = set()  # and of those that it rounds in each run
        self.graph = ""


# Configurations that the command has an option for.
COMMAND_OPTIONS = {"backend_config", "equalization", "prepare_custom_config", "convert_qconfig"}


def through_command(case: Case, paths: oracle.CasePaths) -> bool:
    """Cases that leave --qconfig out test the command's own default."""
    if not COMMAND_OPTIONS.issuperset(paths.configuration_files()):
        return False
    return not case.pass_qconfig or zlib.crc32(case.name.encode()) % COMMAND_SHARE == 0


def quantize_command(tsq: str, case: Case, paths: oracle.CasePaths, engine: str, calibration: Path, out: Path, reference: Path) -> List[str]:
    command: List[str] = [tsq, "quantize", "--no-check", "--force", str(paths.model), "--calib", str(calibration), "--backend", engine]
    command += ["--recipe", "fx", "--mode", "static", "--output", str(out), "--reference", str(reference), "--quiet"]
    if case.pass_qconfig:
        command += ["--qconfig", str(paths.qconfig)]
    for key, file in paths.configuration_files().items():
        command += ["--" + key.replace("_", "-"), str(file)]
    return command


def quantize_job(paths: oracle.CasePaths, engine: str, calibration: Path, out: Path, reference: Path) -> dict:
    files = {"model": paths.model, "calibration": calibration, "output": out, "reference": reference}
    files.update(paths.configuration_files(), qconfig=paths.qconfig)
    return {"backend": engine, **{key: str(file) for key, file in files.items()}}


def run_tsq(options, server: Optional[JobServer], case: Case, paths: oracle.CasePaths, engine: str, calibration: Path, folder: Path) -> Made:
    """`folder` is for the files that it writes."""
    out, reference = folder / "out.pt", folder / "reference.pt"
    if server is None or through_command(case, paths):
        command = quantize_command(options.tsq, case, paths, engine, calibration, out, reference)
        finished = subprocess.run(command, env=one_thread(), capture_output=True, text=True, timeout=JOB_SECONDS)
        code, error = finished.returncode, finished.stderr.strip()
    else:
        answer = server.ask(quantize_job(paths, engine, calibration, out, reference))
        code, error = answer["exit"], answer["error"]
    made = Made()
    made.exit_code = code
    if code == 1:
        made.refusal = error
    elif code != 0:
        made.crash = f"tsq exited with {code}: {error[-300:]}"
    else:
        load(made, case, engine, str(out), str(reference))
    return made


def load(made: Made, case: Case, engine: str, out: str, reference: str) -> None:
    """Loads the two files as any LibTorch program would, and runs them."""
    batches = oracle.evaluation_batches(case, engine)
    step = "load of the lowered model"
    try:
        lowered = torch.jit.load(out)
        step = "run of the lowered model"
        made.lowered = oracle.outputs_of(lowered, batches) + oracle.preserved_attributes(case, engine, lowered)
        step = "reading the graph of the lowered model"
        made.operators = oracle.quantized_operators(lowered)
        made.constants, made.rounded_constants = constants(lowered), rounded_constants(lowered)
        made.graph = str(lowered.inlined_graph)
        step = "load of the reference model"
        model = torch.jit.load(reference)
        step = "run of the reference model"
        made.reference = oracle.outputs_of(model, batches) + oracle.preserved_attributes(case, engine, model)
    except Exception as error:
        made.crash = f"{step}: {type(error).__name__}: " + " ".join(str(error).split())[-500:]


def run_stand_in(case: Case, engine: str, folder: Path) -> Made:
    """FX's own models, traced and saved, in tsq's place: checks the comparison itself."""
    made, result = Made(), oracle.FxResult()
    model = case.build_for_fx() if case.fx_model else case.build()
    models = oracle.fx_models(case, engine, model, result)
    files = [str(folder / name) for name in ("stand_in.pt", "stand_in_reference.pt")]
    if None in models:
        made.refusal = "tsq: error: " + str(result.errors)
        return made
    for fx_model, file in zip((models[1], models[0]), files):
        try:
            torch.jit.save(oracle.traced(fx_model, oracle.evaluation_batches(case, engine)[0]), file)
        except Exception as error:
            made.refusal = f"tsq: error: {str(error).splitlines()[0]}"
            return made
    load(made, case, engine, *files)
    return made
