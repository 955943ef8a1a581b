"""docs/coming-from.md: its Python runs as it is printed, and what it writes of FX's configurations means to tsq what it means to FX.

  from_fx_page.py ROOT TSQ MODEL.pt CALIBRATION.pt
"""

import copy
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.ao.quantization.backend_config.utils
from torch.ao.quantization import (
    FakeQuantize,
    MinMaxObserver,
    QConfig,
    QConfigMapping,
    default_dynamic_qconfig,
    get_default_qat_qconfig_mapping,
    get_default_qconfig_mapping,
)
from torch.ao.quantization.backend_config.executorch import get_executorch_backend_config
from torch.ao.quantization.backend_config.fbgemm import get_fbgemm_backend_config
from torch.ao.quantization.backend_config.onednn import get_onednn_backend_config
from torch.ao.quantization.backend_config.qnnpack import get_qnnpack_backend_config
from torch.ao.quantization.backend_config.x86 import get_x86_backend_config


def code_of(page: str) -> str:
    section = page.split("\n## FX\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return code


def tsq(program: Path, *arguments: str) -> None:
    finished = subprocess.run([program, *arguments], capture_output=True, text=True)
    assert finished.returncode == 0, f"tsq {' '.join(arguments)}: {finished.stderr}"


def quantized(program: Path, model: Path, data: Path, *options: str) -> bytes:
    tsq(program, "quantize", str(model), "--calib", str(data), "--recipe", "fx", "--no-check", "--force", "--output", "out.pt", *options)
    return Path("out.pt").read_bytes()


def main(root: Path, program: Path, model: Path, data: Path) -> None:
    code = compile(code_of((root / "docs/coming-from.md").read_text()), "coming-from.md", "exec")
    engine_tables = {
        "x86": get_x86_backend_config,
        "fbgemm": get_fbgemm_backend_config,
        "onednn": get_onednn_backend_config,
        "qnnpack": get_qnnpack_backend_config,
    }
    own = QConfigMapping().set_object_type(torch.nn.Linear, default_dynamic_qconfig).set_object_type("reshape", None)
    own.set_module_name("middle", None).set_module_name_regex("cl.*", None).set_module_name_object_type_order("", torch.relu, 0, None)
    bare = QConfigMapping().set_global(QConfig(MinMaxObserver, FakeQuantize.with_args(observer=MinMaxObserver.with_args(reduce_range=False))))
    others = [get_default_qat_qconfig_mapping("x86", version) for version in (0, 1)] + [bare, own]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)

        def write(mapping, backend) -> None:
            exec(code, {"mapping": mapping, "backend": backend})
            tsq(program, "qconfig", "check", "q.json")
            tsq(program, "backend-config", "check", "b.json")

        for engine, table in engine_tables.items():
            write(get_default_qconfig_mapping(engine), table())
            expected = quantized(program, model, data, "--backend", engine)
            made = quantized(program, model, data, "--qconfig", "q.json", "--backend-config", "b.json")
            assert made == expected, f"{engine}: the file that the page's JSON makes is not that of the default configuration"
        for mapping in others:
            write(copy.deepcopy(mapping), get_executorch_backend_config())
        assert "" not in json.loads(Path("q.json").read_text()) or json.loads(Path("q.json").read_text())[""] is None
    print("the page's Python writes what tsq reads")


if __name__ == "__main__":
    main(*(Path(argument).resolve() for argument in sys.argv[1:]))
