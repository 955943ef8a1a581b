"""A network with its data, in memory and as the folder of files that all peers start from."""
from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import samples
from samples import Sample, Unusable


@dataclass(frozen=True)
class Case:
    name: str
    note: str  # what a reader must know of weights and data
    model: torch.jit.ScriptModule
    calibration: list[Sample]
    test: list[Sample]
    module: nn.Module | None = None  # the source; None where there is only a TorchScript file
    home: str = ''  # a Python module without which the source cannot be loaded


@dataclass(frozen=True)
class Folder:
    """The files of a case. `source` is there only if the source is."""
    path: Path

    @property
    def model(self) -> Path:
        return self.path / 'float.pt'

    @property
    def calibration(self) -> Path:
        return self.path / 'calibration.pt'

    @property
    def test(self) -> Path:
        return self.path / 'test.pt'

    @property
    def batches(self) -> Path:
        return self.path / 'batches.pt'

    @property
    def source(self) -> Path:
        return self.path / 'source.pt'

    @property
    def home(self) -> Path:
        return self.path / 'source.home.txt'

    def outputs(self, key: str) -> Path:
        return self.path / f'{key}.outputs.pt'


def from_file(model_path: str, data_path: str, test_path: str | None) -> Case:
    """The user's own network. Without test data the last quarter of the data is held back."""
    model = load_float(model_path)
    data = samples.read(data_path)
    if test_path:
        return Case(Path(model_path).stem, 'a file of yours', model, data, samples.read(test_path))
    if len(data) < 2:
        raise Unusable(f"'{data_path}' has one sample, of which none can be held back to judge by: add samples, or name others with --test")
    held_back = max(1, len(data) // 4)
    note = f'a file of yours; the last {held_back} of {len(data)} samples judge and do not calibrate'
    return Case(Path(model_path).stem, note, model, data[:-held_back], data[-held_back:])


def load_float(path: str) -> torch.jit.ScriptModule:
    if not Path(path).is_file():
        raise Unusable(f"there is no file '{path}'")
    try:
        return torch.jit.load(path, map_location='cpu').eval()
    except RuntimeError as error:
        raise Unusable(f"'{path}' is no TorchScript file: {samples.first_line(error)}") from error


def load_source(folder: Folder) -> nn.Module:
    home = folder.home.read_text()
    if home:
        importlib.import_module(home)
    return torch.load(folder.source, weights_only=False)


def all_data(folder: Folder) -> list[Sample]:
    """Every sample that a model will be called with."""
    batches = [batch for made in torch.load(folder.batches).values() for batch in made]
    return [*torch.load(folder.calibration), *torch.load(folder.test), *batches]


def tensors_of(result: object) -> list[Tensor]:
    """The floating-point tensors of a result, in order."""
    if isinstance(result, Tensor):
        return [result] if result.is_floating_point() else []
    if isinstance(result, dict):
        result = list(result.values())
    return [x for part in result for x in tensors_of(part)] if isinstance(result, (tuple, list)) else []


def float_outputs(case: Case, inputs: list[Sample], what: str) -> list[list[Tensor]]:
    results = []
    with torch.no_grad():
        for i, sample in enumerate(inputs):
            try:
                results.append(tensors_of(case.model(*sample)))
            except RuntimeError as error:
                raise Unusable(f'the float model {case.name} fails on {what} {i}: {last_line(error)}') from error
            if not results[-1]:
                raise Unusable(f'the float model {case.name} returns no floating-point tensor for {what} {i}: there is nothing to compare')
    return results


def last_line(error: BaseException) -> str:
    """Of TorchScript's message, which ends with the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def write(case: Case, sizes: list[int], path: Path) -> tuple[Folder, dict[int, str]]:
    """Writes the files, with what float makes of the test samples. Also returns batch sizes that float cannot compute, and why."""
    folder = Folder(path)
    float_outputs(case, case.calibration[:1], 'calibration sample')
    torch.save(float_outputs(case, case.test, 'test sample'), folder.outputs('float'))
    case.model.save(str(folder.model))
    torch.save(case.calibration, folder.calibration)
    torch.save(case.test, folder.test)
    batches, refused = usable_batches(case, sizes)
    torch.save(batches, folder.batches)
    if case.module is not None:
        torch.save(case.module, folder.source)
        folder.home.write_text(case.home)
    return folder, refused


def usable_batches(case: Case, sizes: list[int]) -> tuple[dict[int, list[Sample]], dict[int, str]]:
    batches, refused = {}, {}
    for size in sizes:
        made = samples.batches(case.test, size)
        try:
            float_outputs(case, made[:1], f'a batch of {size}, number')
            batches[size] = made
        except Unusable as error:
            refused[size] = str(error)
    return batches, refused
