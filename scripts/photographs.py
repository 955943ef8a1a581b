"""Real photographs that Python packages carry along, cut to what EfficientNet-Lite0 takes."""
import io
import re
import tarfile
import zipfile

import numpy
import torch
from PIL import Image
from torch import Tensor

from efficientnet_lite0 import INPUT_SIZE
from wheel_contents import Wheels

# package, version, folder in it, pictures
FOR_CALIBRATION = [
    ('scikit-image', '0.26.0', 'skimage/data/', ['astronaut.png', 'chelsea.png', 'coffee.png', 'rocket.jpg', 'motorcycle_left.png',
                                                'hubble_deep_field.jpg', 'retina.jpg', 'ihc.png']),
    ('scikit-learn', '1.9.1', 'sklearn/datasets/images/', ['china.jpg', 'flower.jpg']),
    ('mahotas', '1.4.19', 'mahotas/demos/data/', ['DepartmentStore.jpg', 'luispedro.jpg']),
]


def open_all(wheels: Wheels, packages: list[tuple]) -> list[Image.Image]:
    photographs = []
    for package, version, folder, names in packages:
        with wheels.open(package, version) as wheel:
            photographs += [decode(wheel.read(folder + name)) for name in names]
    return photographs


def decode(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content)).convert('RGB')


def calibration_photographs(wheels: Wheels) -> list[Image.Image]:
    return open_all(wheels, FOR_CALIBRATION)


def labelled_photographs(wheels: Wheels) -> list[tuple[Image.Image, int]]:
    """24 photographs with their ImageNet class: 20 of foolbox, 4 cats of alibi. None of them serves calibration."""
    labelled = []
    with wheels.open('foolbox', '3.3.4') as wheel:
        for name in sorted(wheel.namelist()):
            if match := re.search(r'/imagenet_\d+_(\d+)\.jpg$', name):
                labelled.append((decode(wheel.read(name)), int(match[1])))
    with wheels.open('alibi', '0.9.4') as wheel, tarfile.open(fileobj=io.BytesIO(wheel.read('alibi/data/cats.tar.gz'))) as cats:
        for name in sorted(name for name in cats.getnames() if name.endswith('.jpg')):
            labelled.append((decode(cats.extractfile(name).read()), int(name.split('_')[1])))
    return labelled


def to_tensor(image: Image.Image) -> Tensor:
    """A batch of one, in the range that the network was trained for."""
    pixels = numpy.array(image, dtype=numpy.float32)
    return torch.from_numpy((pixels - 127) / 128).permute(2, 0, 1).unsqueeze(0).contiguous()


def centre_crop(image: Image.Image) -> Tensor:
    """The middle of the picture, whose shorter side becomes 256 pixels."""
    scale = 256 / min(image.size)
    image = image.resize([round(side * scale) for side in image.size], Image.Resampling.BICUBIC)
    left, top = [(side - INPUT_SIZE) // 2 for side in image.size]
    return to_tensor(image.crop((left, top, left + INPUT_SIZE, top + INPUT_SIZE)))


def random_crop(image: Image.Image, random: numpy.random.RandomState) -> Tensor:
    """A square of 45 to 95 percent of the shorter side from anywhere in the picture, mirrored half of the time."""
    side = int(min(image.size) * random.uniform(0.45, 0.95))
    left, top = [random.randint(0, whole - side + 1) for whole in image.size]
    crop = image.resize((INPUT_SIZE, INPUT_SIZE), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))
    return to_tensor(crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.randint(2) else crop)


def calibration_set(wheels: Wheels) -> list[tuple[Tensor]]:
    """8 batches of 4 crops."""
    photographs, random = calibration_photographs(wheels), numpy.random.RandomState(0)
    crops = [random_crop(photographs[i % len(photographs)], random) for i in range(32)]
    return [(torch.cat(crops[i:i + 4]),) for i in range(0, len(crops), 4)]


def evaluation_set(labelled: list[tuple[Image.Image, int]]) -> list[tuple[Tensor]]:
    """Every labelled photograph whole, then three crops of each."""
    random = numpy.random.RandomState(1)
    whole = [(centre_crop(image),) for image, _ in labelled]
    return whole + [(random_crop(image, random),) for _ in range(3) for image, _ in labelled]
