"""Faults of `.npy` and `.npz`: headers edited, sizes that do not fit, and all those of archives."""

import re
import struct
from random import Random

import archive_faults
import archives
import byte_faults

SHAPES = ["()", "(0,)", "(-1, 2)", "(9223372036854775807,)", "(4611686018427387904, 4)", "(2147483648, 2147483648)", "(1,) * 9", "(3,", "(1e9,)",
          "(99999999999999999999,)", "(" + "1, " * 1000 + ")", "(4, 0, 9223372036854775807)", "(10000000000, 0)", "(True,)", "(2L, 3L)"]
DTYPES = ["<f4", ">f4", "<f8", "<f2", "|u1", "|b1", "|O", "<c8", "<c16", "<U5", "|V100", "<f99999", "", "<M8[ns]", "f" * 100000, "\\'"]


def change_header(random: Random, content: bytes) -> bytes:
    length = struct.unpack("<H", content[8:10])[0]
    header = content[10:10 + length].decode("latin-1")
    kind = random.choice(["shape", "dtype", "order", "cut", "long", "text"])
    if kind == "shape":
        header = re.sub(r"'shape': \([^)]*\)", lambda _: "'shape': " + random.choice(SHAPES), header)
    elif kind == "dtype":
        header = re.sub(r"'descr': '[^']*'", lambda _: f"'descr': '{random.choice(DTYPES)}'", header)
    elif kind == "order":
        header = header.replace("False", random.choice(["True", "None", "7"]))
    elif kind == "cut":
        header = header[: random.randrange(len(header))]
    elif kind == "long":
        header += " " * random.choice([60000, 65000])
    else:
        header = byte_faults.flip_bits(random, header.encode("latin-1")).decode("latin-1")
    encoded = header.encode("latin-1")[:65535]
    version = random.choice([1, 1, 1, 0, 2, 3, 4, 255])
    size = len(encoded) if random.random() < 0.8 else random.choice([0, 1, 65535, len(encoded) + 1])
    width = "<I" if version in (2, 3) else "<H"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(width, size) + encoded + content[10 + length:]


def array_fault(random: Random, content: bytes):
    if random.random() < 0.5:
        return "npy.header", change_header(random, content)
    name, changed = byte_faults.any_fault(random, content)
    return f"bytes.{name}", changed


def archive_fault(random: Random, content: bytes):
    if random.random() < 0.1:
        name, changed = byte_faults.any_fault(random, content)
        return f"bytes.{name}", changed
    archive = archives.read(content)
    if random.random() < 0.5:
        entry = random.choice(archive.entries)
        name, entry.data = array_fault(random, entry.data)
    else:
        name = archive_faults.change_structure(random, archive)
    return name, archives.write(archive)
