"""Which commands read which kind of file. `{file}` is the file with the fault, `{seeds}` the folder of those without, `{data}` the data
that goes with the model, and outputs are written into the folder in which the command runs."""

from typing import Dict, List

_FLOAT = "{seeds}/pictures.pt"
_DATA = "{seeds}/pictures_data.pt"
_QUICK = ["--no-check", "--effort", "normal"]
_BENCH = ["--rounds", "2", "--launches", "1", "--warmup", "1"]

COMMANDS: Dict[str, List[List[str]]] = {
    "float": [
        ["inspect", "{file}"],
        ["inspect", "{file}", "--json"],
        ["explain", "{file}", "--calib", "{data}"],
        ["quantize", "{file}", "--calib", "{data}", "--output", "out.pt", "--report", "out.json", *_QUICK],
        ["quantize", "{file}", "--calib", "{data}", "--target", "fused", "--output", "out.pt", *_QUICK],
        ["quantize", "{file}", "--mode", "dynamic", "--output", "out.pt", "--no-check"],
        ["prepare", "{file}", "--output", "out.pt"],
        ["prepare", "--qat", "{file}", "--output", "out.pt", "--recipe", "fx"],
        ["run", "{file}", "--data", "{data}", "--output", "out.pt"],
        ["compare", "{file}", "{file}", "--data", "{data}"],
        ["verify", "{file}", "--data", "{data}", "--detect"],
        ["bench", "{file}", "--data", "{data}", *_BENCH],
        ["sensitivity", "{file}", "--calib", "{data}", "--output", "out.json", "--samples", "1"],
        ["report", "{file}", "{file}", "--data", "{data}", "--no-times", "--samples", "1", "--output", "out.html"],
    ],
    "prepared": [
        ["inspect", "{file}"],
        ["calibrate", "{file}", "--calib", _DATA, "--output", "out.pt"],
        ["convert", "{file}", "--allow-uncalibrated", "--output", "out.pt"],
        ["run", "{file}", "--data", _DATA],
    ],
    "calibrated": [
        ["inspect", "{file}"],
        ["convert", "{file}", "--output", "out.pt", "--data", _DATA],
        ["calibrate", "{file}", "--calib", _DATA, "--output", "out.pt"],
    ],
    "reference": [
        ["inspect", "{file}"],
        ["lower", "{file}", "--output", "out.pt", "--data", _DATA],
        ["lower", "{file}", "--target", "fused", "--output", "out.pt"],
        ["prepare", "--qat", "{file}", "--output", "out.pt"],
        ["run", "{file}", "--data", _DATA],
    ],
    "int8": [
        ["inspect", "{file}"],
        ["run", "{file}", "--data", "{data}", "--output", "out.pt"],
        ["compare", "{float}", "{file}", "--data", "{data}"],
        ["verify", "{float}", "{file}", "--data", "{data}"],
        ["bench", "{file}", "--data", "{data}", *_BENCH],
        ["report", "{float}", "{file}", "--data", "{data}", "--no-times", "--samples", "1", "--output", "out.html"],
        ["quantize", "{file}", "--calib", "{data}", "--output", "out.pt"],
    ],
    "pt_data": [
        ["run", _FLOAT, "--data", "{file}", "--output", "out.pt"],
        ["quantize", _FLOAT, "--calib", "{file}", "--output", "out.pt", *_QUICK],
        ["calibrate", "{seeds}/prepared.pt", "--calib", "{file}", "--output", "out.pt"],
        ["compare", _FLOAT, "{seeds}/int8_x86.pt", "--data", "{file}"],
        ["run", "{seeds}/fused.pt", "--data", "{file}"],
    ],
    "table": [
        ["backend-config", "check", "{file}"],
        ["explain", _FLOAT, "--backend-config", "{file}", "--backend", "x86"],
        ["quantize", _FLOAT, "--backend-config", "{file}", "--backend", "x86", "--calib", _DATA, "--output", "out.pt", "--no-check"],
    ],
    "mapping": [
        ["qconfig", "check", "{file}"],
        ["explain", _FLOAT, "--qconfig", "{file}"],
        ["quantize", _FLOAT, "--qconfig", "{file}", "--calib", _DATA, "--output", "out.pt", "--no-check"],
        ["convert", "{seeds}/calibrated.pt", "--convert-qconfig", "{file}", "--output", "out.pt"],
        ["verify", _FLOAT, "--qconfig", "{file}", "--data", _DATA],
    ],
    "equalization": [
        ["explain", _FLOAT, "--equalization", "{file}"],
        ["prepare", _FLOAT, "--equalization", "{file}", "--output", "out.pt"],
    ],
    "prepare_custom": [
        ["explain", _FLOAT, "--prepare-custom-config", "{file}"],
        ["prepare", _FLOAT, "--prepare-custom-config", "{file}", "--output", "out.pt"],
    ],
    "convert_custom": [
        ["explain", _FLOAT, "--convert-custom-config", "{file}"],
        ["convert", "{seeds}/calibrated.pt", "--convert-custom-config", "{file}", "--output", "out.pt"],
    ],
    "bench": [["bench", _FLOAT, "--data", _DATA, "--compare", "{file}", *_BENCH]],
}
COMMANDS["fused"] = COMMANDS["int8"]
COMMANDS["npy"] = COMMANDS["npz"] = COMMANDS["pt_data"]

_MODELS = {"steps": "steps", "dynamic": "steps", "fused_steps": "steps", "words": "words", "weight_only": "words"}


def filled(command: List[str], file: str, seed: str, seeds: str) -> List[str]:
    """The arguments of tsq; `seed` is the name of the file before it got its fault."""
    model = _MODELS.get(seed.removesuffix(".pt"), "pictures")
    values = {"file": file, "seeds": seeds, "data": f"{seeds}/{model}_data.pt", "float": f"{seeds}/{model}.pt"}
    arguments = [argument.format(**values) for argument in command]
    checks = arguments[0] in ("backend-config", "qconfig")
    return arguments if checks else [*arguments, "--threads", "1"]
