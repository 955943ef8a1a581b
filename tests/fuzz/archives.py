"""Zip archives as lists of entries, whose headers may say what is not so: zipfile writes only archives that are whole."""

import io
import struct
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import Dict, List

STORED, DEFLATED = 0, 8


@dataclass
class Entry:
    name: bytes
    data: bytes
    method: int = STORED
    packed: bytes = b""  # what stands in the file; of a stored entry and where it is empty, made from `data`
    local: Dict[str, int] = field(default_factory=dict)  # in place of the true crc, size, packed_size, method, flags
    central: Dict[str, int] = field(default_factory=dict)  # the same, and offset


@dataclass
class Archive:
    entries: List[Entry]
    comment: bytes = b""
    end: Dict[str, int] = field(default_factory=dict)  # in place of the true count, size and offset of the directory

    def find(self, ending: str) -> List[Entry]:
        return [entry for entry in self.entries if entry.name.decode("utf-8", "replace").endswith(ending)]


def read(content: bytes) -> Archive:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return Archive([Entry(info.filename.encode(), file.read(info), info.compress_type) for info in file.infolist()])


def packed(entry: Entry) -> bytes:
    if entry.packed or entry.method == STORED:
        return entry.packed or entry.data
    worker = zlib.compressobj(6, zlib.DEFLATED, -15)
    return worker.compress(entry.data) + worker.flush()


def write(archive: Archive) -> bytes:
    content = io.BytesIO()
    directory = io.BytesIO()
    for entry in archive.entries:
        body = packed(entry)
        truth = {"crc": zlib.crc32(entry.data), "size": len(entry.data), "packed_size": len(body), "method": entry.method,
                 "flags": 0, "offset": content.tell()}
        local = {**truth, **entry.local}
        central = {**truth, **entry.central}
        # As LibTorch does, so that what is read without a copy is aligned.
        fill = -(content.tell() + 30 + len(entry.name) + 4) % 64
        extra = struct.pack("<2sH", b"FB", fill) + b"Z" * fill
        content.write(struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, local["flags"], local["method"], 0, 0, local["crc"] & 0xFFFFFFFF,
                                  local["packed_size"] & 0xFFFFFFFF, local["size"] & 0xFFFFFFFF, len(entry.name), len(extra)))
        content.write(entry.name + extra + body)
        wide = b""
        sizes = {name: central[name] for name in ("size", "packed_size", "offset")}
        if any(number > 0xFFFFFFFE for number in sizes.values()):
            wide = struct.pack("<HHQQQ", 1, 24, *(number & (2**64 - 1) for number in sizes.values()))
            sizes = dict.fromkeys(sizes, 0xFFFFFFFF)
        directory.write(struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 45, 20, central["flags"], central["method"], 0, 0,
                                    central["crc"] & 0xFFFFFFFF, sizes["packed_size"], sizes["size"], len(entry.name), len(wide), 0, 0,
                                    0, 0, sizes["offset"]) + entry.name + wide)
    end = {"count": len(archive.entries), "size": directory.tell(), "offset": content.tell(), **archive.end}
    content.write(directory.getvalue())
    count = end["count"] & 0xFFFF
    content.write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, end["size"] & 0xFFFFFFFF, end["offset"] & 0xFFFFFFFF,
                              len(archive.comment)) + archive.comment)
    return content.getvalue()
