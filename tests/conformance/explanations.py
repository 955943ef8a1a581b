"""What `tsq explain` says of a model in which operators stay float for more than twenty reasons: each has its reason, and
what to change, pinned below by words of both.

  explanations.py --tsq build/release/bin/tsq
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import explained_model
from comparison import has_vnni

# Layer or operator: words of the reason, words of what to change.
REASONS = {
    "silu": ("no pattern of backend 'x86'", "torch.nn.Hardswish"),
    "average": ("its qconfig is none (object type 'torch.nn.AvgPool2d')", "object type 'torch.nn.AvgPool2d'"),
    "by_name": ("its qconfig is none (module name 'by_name')", "module name 'by_name'"),
    "by_regex": ("its qconfig is none (module name regex 'by_re.*')", "module name regex 'by_re.*'"),
    "head_layer": ("its qconfig is none (module name regex 'head.*')", "module name regex 'head.*'"),
    "in_order": ("its qconfig is none (module name, object type and order", "module name, object type and order"),
    "signed": ("input is qint8, the backend's config takes quint8", "give its activation observer dtype quint8"),
    "squash": ("HistogramObserver where the backend requires a FixedQParamsObserver", "scale 0.00390625 and zero point 0"),
    "unsigned_weight": ("its weight observer has quint8", "give its weight observer dtype qint8"),
    "moving": ("the qconfig is dynamic, the backend's config static", "static qconfig"),
    "aten::add": ("no alpha", "multiply the second operand"),
    "decoder": ("numbers of channels in and out differ", "another engine"),
    "statistics": ("quantized::batch_norm2d needs running statistics", "track_running_stats=True"),
    "pair": ("it forms one kernel with torch.nn.BatchNorm2d ('pair_norm')", "running statistics"),
    "pair_norm": ("quantized::batch_norm2d needs running statistics", "track_running_stats=True"),
    "after_alone": ("the standalone module explained_model.Alone ('alone')", "output_quantized_idxs [0]"),
    "aten::flatten": ("no pattern of backend 'x86'", "write it as torch.flatten"),
    "torch.nn.functional.interpolate": ("LibTorch interpolates quantized tensors", ""),
    "with_indices": ("it returns several values", "return_indices=False"),
    "opaque": ("non-traceable module", "standalone module"),
    "alone.mish": ("no pattern of backend 'x86'", "torch.nn.Hardswish"),
    "explained_model.Layer.forward": ("decided when the model runs", "branches of an 'if'"),
    "lstm": ("the qconfig is static, the backend's config dynamic", "default_dynamic_qconfig"),
    "embedding": ("no DTypeConfig", "float_qparams_weight_only_qconfig"),
    "aten::cumsum": ("no pattern of backend 'x86'", "leave it float"),
    "aten::squeeze": ("mask", "nothing"),
}
WARNINGS = [
    "object type 'torch.nn.Hardswish' of the qconfig mapping matches no operator",
    "module name 'encoder.convolution' of the qconfig mapping matches no operator; did you mean 'encoder.conv'",
    "module name 'batch_norm' of the qconfig mapping matches no operator",
]


def explain(tsq: str, folder: Path, *more: str) -> str:
    model = torch.jit.script(explained_model.Explained().eval())
    model.save(folder / "model.pt")
    torch.save(explained_model.samples(), folder / "data.pt")
    (folder / "mapping.json").write_text(json.dumps(explained_model.MAPPING))
    (folder / "custom.json").write_text(json.dumps(explained_model.CUSTOM))
    command = [tsq, "explain", folder / "model.pt", "--recipe", "fx", "--calib", folder / "data.pt", "--qconfig", folder / "mapping.json"]
    command += ["--prepare-custom-config", folder / "custom.json", *more]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def differences(report: dict) -> list[str]:
    found = []
    operators = [entry for entry in report["operators"] if entry["on_tensors"]]
    for entry in operators:
        if not entry["quantized"] and not (entry.get("reason") and entry.get("remedy")):
            found.append(f"{entry['node']} ({entry['op']}) stays float without a reason or what to change")
    for place, (reason, remedy) in REASONS.items():
        # Without VNNI the engine x86 takes fbgemm's transposed kernel, which has no such fault.
        if place == "decoder" and not has_vnni():
            if not any(entry["layer"] == place and entry["quantized"] for entry in operators):
                found.append(f"{place} stays float, though its kernel is fbgemm's")
            continue
        entries = [entry for entry in operators if place in (entry["layer"], entry["op"]) and not entry["quantized"]]
        if not any(reason in entry["reason"] and remedy in entry["remedy"] for entry in entries):
            told = [(entry["reason"], entry["remedy"]) for entry in entries]
            found.append(f"{place}: {told}, expected {(reason, remedy)}")
    # No row of the backend has it, but it stands between two that are quantized.
    norm = next(entry for entry in operators if entry["layer"] == "alone.norm")
    if not norm["quantized"] or norm["kernel"] != "quantized::layer_norm" or not norm.get("notes"):
        found.append(f"alone.norm: {norm}")
    texts = [warning["text"] for warning in report["unmatched_entries"]]
    for warning in WARNINGS:
        if not any(text.startswith(warning) for text in texts):
            found.append(f"no warning '{warning}' among {texts}")
    if len(texts) != len(WARNINGS):
        found.append(f"{len(texts)} warnings, expected {len(WARNINGS)}: {texts}")
    summary = report["summary"]
    if not 0 < summary["int8_macs_share"] < 1 or summary["quantized"] + summary["float"] != summary["operators"]:
        found.append(f"summary {summary}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tsq", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        report = json.loads(explain(arguments.tsq, Path(folder), "--json"))
    found = differences(report)
    print("\n".join(found) or f"{len(REASONS)} reasons as expected")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
