#!/usr/bin/env python3
"""Writes corpus/TARGET/*: small inputs from which the fuzz targets begin. Made of what mutate_files.py makes, too.

    make_corpus.py --tsq build/release/bin/tsq"""

import argparse
import json
import shutil
import struct
import tempfile
from pathlib import Path

import archives
import seed_files

CORPUS = Path(__file__).resolve().parent / "corpus"
# In the order of the readers in json.cpp.
READERS = ["mapping", "table", "equalization", "prepare_custom", "convert_custom", "fuse_custom", "qconfig", "pattern", "bench"]
LARGEST = 20000


def write(target: str, name: str, content: bytes) -> None:
    if len(content) <= LARGEST:
        (CORPUS / target).mkdir(parents=True, exist_ok=True)
        (CORPUS / target / name).write_bytes(content)


def write_json(seeds: Path) -> None:
    # Without the folder in which they were made.
    texts = {name: json.loads((seeds / f"{name}.json").read_text().replace(f"{seeds}/", "")) for name in
             ["mapping", "table", "equalization", "prepare_custom", "convert_custom", "bench"]}
    texts["fuse_custom"] = {"preserved_attributes": ["a"]}
    texts["qconfig"] = next(entry[1] for entry in texts["mapping"]["object_type"] if isinstance(entry[1], dict))
    texts["pattern"] = texts["table"]["configs"][0]
    texts["mapping"]["object_type"] = texts["mapping"]["object_type"][:3]
    texts["mapping"]["module_name_regex"] = [["a.*[0-9]", None]]
    texts["mapping"]["module_name_object_type_order"] = [["a", "torch.nn.Linear", 0, None]]
    for number, reader in enumerate(READERS):
        write("json", f"{reader}.json", bytes([number]) + json.dumps(texts[reader]).encode())


def write_archives(seeds: Path) -> None:
    for path in sorted(seeds.glob("*.pt")):
        content = path.read_bytes()
        write("archive", path.name, content)
        for entry in archives.read(content).entries:
            name = entry.name.decode().split("/", 1)[1].replace("/", "_")
            if name in ("data.pkl", "constants.pkl") or name == "code___torch__.py.debug_pkl":
                write("pickle", f"{path.stem}_{name}", entry.data)


def write_arrays(seeds: Path) -> None:
    for name in ["pictures.npy", "stored.npz", "packed.npz"]:
        write("numpy", name, (seeds / name).read_bytes())


def program_of(path: Path) -> str:
    data = archives.read(path.read_bytes()).find("/data.pkl")[0].data
    begin = data.index(b'{"given_integers"') if b'{"given_integers"' in data else data.index(b'{"inputs"')
    length = struct.unpack("<I", data[begin - 4:begin])[0]
    return data[begin:begin + length].decode()


def write_programs(seeds: Path) -> None:
    """An even first byte: text, after constants (none), shapes (one or two) and integers (none)."""
    for name in ["fused", "fused_steps"]:
        write("program", f"{name}.json", bytes([0, 0, 0, 0]) + program_of(seeds / f"{name}.pt").encode())
    one = {"version": 1, "inputs": [0], "outputs": [1], "values": [{"dtype": "f32"}, {"dtype": "f32"}]}
    kinds = {"activation": {"post_ops": [{"kind": "relu"}]}, "softmax": {"axis": -1}, "reshape": {"shape": [0, -1]}, "mean": {"axes": [1]},
             "slice": {"axis": 1, "begin": 0, "end": 2}, "max_pool": {"kernel": [2, 2]}, "pad": {"padding_begin": [1], "padding_end": [1]}}
    for kind, attributes in kinds.items():
        program = {**one, "operations": [{"kind": kind, "inputs": [0], "output": 1, **attributes}]}
        # No constants; one tensor of 1 x 2 x 3 x 4; no integers.
        header = bytes([0, 0, 1, 4, 0, 0, 0, 1, 0, 2, 0, 3, 0])
        write("program", f"{kind}.json", header + json.dumps(program).encode())
    # An odd first byte: operations are drawn.
    for number in range(64):
        write("program", f"drawn_{number}", bytes([1]) + bytes((number * 37 + place * (place + number)) % 256 for place in range(96)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tsq", default=str(CORPUS.parents[2] / "build/release/bin/tsq"))
    options = parser.parse_args()
    shutil.rmtree(CORPUS, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        seeds = Path(folder)
        seed_files.write_all(str(Path(options.tsq).resolve()), seeds)
        write_json(seeds)
        write_archives(seeds)
        write_arrays(seeds)
        write_programs(seeds)


if __name__ == "__main__":
    main()
