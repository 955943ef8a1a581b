"""Faults of archives: records swapped, cut, doubled and renamed, sizes and places that are not so, bombs; and, with checksums that are
right, faults of the pickles, the code and the JSON in them."""

import functools
import json
import zlib
from random import Random

import archives
import byte_faults
import code_faults
import json_faults
import pickle_faults
from archives import DEFLATED, Archive, Entry

SIZES = [0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 1]


@functools.lru_cache(maxsize=None)
def zeros(size: int) -> bytes:
    """So many zeros, deflated."""
    worker = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunk = bytes(1 << 20)
    return b"".join([worker.compress(chunk) for _ in range(size >> 20)] + [worker.flush()])


def any_entry(random: Random, archive: Archive) -> Entry:
    return random.choice(archive.entries)


def swap_records(random, archive):
    a, b = any_entry(random, archive), any_entry(random, archive)
    a.data, b.data = b.data, a.data


def cut_record(random, archive):
    entry = any_entry(random, archive)
    entry.data = entry.data[: random.choice([0, 1, len(entry.data) // 2, max(0, len(entry.data) - 1)])]


def cut_storage(random, archive):
    found = [entry for entry in archive.entries if b"/data/" in entry.name or b"/constants/" in entry.name] or archive.entries
    entry = random.choice(found)
    entry.data = entry.data[: random.choice([0, 1, len(entry.data) // 2, max(0, len(entry.data) - 1)])]


def lengthen_record(random, archive):
    any_entry(random, archive).data += random.randbytes(random.choice([1, 8, 4096]))


def empty_archive(random, archive):
    archive.entries = random.choice([[], archive.entries[:1], archive.entries[:2]])


def double_entry(random, archive):
    entry = any_entry(random, archive)
    other = Entry(entry.name, random.choice([entry.data, b"", byte_faults.flip_bits(random, entry.data)]))
    archive.entries.insert(random.randrange(len(archive.entries) + 1), other)


def drop_entry(random, archive):
    archive.entries.remove(any_entry(random, archive))


def rename_entry(random, archive):
    entry = any_entry(random, archive)
    folder = entry.name.split(b"/")[0]
    entry.name = random.choice([b"", b"/", folder, folder + b"/", b"../../x", folder + b"/../data.pkl", b"other/" + entry.name, b"\0" + entry.name,
                                entry.name + b"\0", b"\xff\xfe", entry.name.upper(), folder + b"/" + b"a/" * 5000, b"n" * 65000,
                                folder + b"/extra/tsq.json", folder + b"/data.pkl", folder + b"/constants.pkl", folder + b"/code/__torch__.py",
                                folder + b"/version", folder + b"/.data/version", folder + b"/byteorder", folder + b"/code/a..b.py",
                                folder + b"/code/__torch__/x\x1b[31m.py"])


def rename_folder(random, archive):
    new = random.choice([b"", b"\xff", b"a" * 3000, b"..", b"a/b/c", b"\x1b[2J"])
    for entry in archive.entries:
        entry.name = new + entry.name[entry.name.find(b"/"):]


def false_size(random, archive):
    """In the local header, in the directory, or in both."""
    entry = any_entry(random, archive)
    for headers in random.choice([[entry.local], [entry.central], [entry.local, entry.central]]):
        for name in random.choice([["size"], ["packed_size"], ["size", "packed_size"]]):
            headers[name] = random.choice(SIZES + [len(entry.data) + 1, max(0, len(entry.data) - 1)])


def false_place(random, archive):
    entry = any_entry(random, archive)
    entry.central["offset"] = random.choice(SIZES + [1, 30, 64, sum(len(other.data) for other in archive.entries)])


def false_checksum(random, archive):
    entry = any_entry(random, archive)
    random.choice([entry.local, entry.central])["crc"] = random.getrandbits(32)


def false_method(random, archive):
    entry = any_entry(random, archive)
    number = random.choice([1, 6, 8, 9, 12, 14, 93, 99, 65535])
    for headers in random.choice([[entry.local], [entry.central], [entry.local, entry.central]]):
        headers[random.choice(["method", "flags"])] = number


def false_directory(random, archive):
    archive.end[random.choice(["count", "size", "offset"])] = random.choice(SIZES + [2, 3, 64, 46])
    if random.random() < 0.2:
        archive.comment = random.choice([b"x" * 65535, b"PK\5\6" * 100, b"PK\6\6" + b"\xff" * 52 + b"PK\6\7" + b"\xff" * 16])


def pack_records(random, archive):
    """Deflated, which LibTorch does not write and reads."""
    for entry in archive.entries:
        if random.random() < 0.5:
            entry.method = DEFLATED


def bomb(random, archive):
    entry = any_entry(random, archive)
    size = random.choice([64, 512, 3072]) << 20
    entry.data, entry.packed, entry.method = b"", zeros(size), DEFLATED
    entry.local = entry.central = {"size": size, "crc": random.choice([0, zeros_checksum(size)])}


@functools.lru_cache(maxsize=None)
def zeros_checksum(size: int) -> int:
    checksum = 0
    chunk = bytes(1 << 20)
    for _ in range(size >> 20):
        checksum = zlib.crc32(chunk, checksum)
    return checksum


def nested(random, archive):
    """The archive as a record of itself."""
    any_entry(random, archive).data = archives.write(archive)


def many_entries(random, archive):
    folder = archive.entries[0].name.split(b"/")[0]
    archive.entries += [Entry(folder + b"/data/%d" % (1000 + i), b"") for i in range(random.choice([1000, 60000]))]


STRUCTURE = [swap_records, cut_record, cut_storage, lengthen_record, empty_archive, double_entry, drop_entry, rename_entry, rename_folder, false_size,
             false_size, false_place, false_checksum, false_method, false_directory, pack_records, bomb, nested, many_entries]


def change_structure(random: Random, archive: Archive) -> str:
    fault = random.choice(STRUCTURE)
    fault(random, archive)
    return "zip." + fault.__name__


def changed_entry(random: Random, archive: Archive, ending: str, change):
    """One of the records that end so, with what `change` makes of it; None where there is none."""
    found = archive.find(ending)
    if not found:
        return None
    entry = random.choice(found)
    name, entry.data = change(entry.data)
    return name


def change_pickle(random: Random, archive: Archive) -> str:
    ending = random.choice(["/data.pkl"] * 5 + ["/constants.pkl", ".debug_pkl"])
    name = changed_entry(random, archive, ending, lambda data: pickle_faults.any_fault(random, data))
    return f"pickle.{name}" if name else change_structure(random, archive)


def change_program(random: Random, archive: Archive) -> str:
    name = changed_entry(random, archive, "/data.pkl",
                         lambda data: pickle_faults.any_fault(random, data, [pickle_faults.change_program]))
    return f"program.{name}" if name else change_structure(random, archive)


def change_code(random: Random, archive: Archive) -> str:
    def change(data):
        name, code = code_faults.any_fault(random, data.decode("utf-8"))
        return name, code.encode("utf-8", "surrogatepass")

    name = changed_entry(random, archive, ".py", change)
    return f"code.{name}" if name else change_structure(random, archive)


def change_metadata(random: Random, archive: Archive) -> str:
    def change(data):
        name, text = json_faults.any_fault(random, data.decode())
        return name, text.encode("utf-8", "surrogatepass")

    name = changed_entry(random, archive, "extra/tsq.json", change)
    if name:
        return f"tsq_json.{name}"
    folder = archive.entries[0].name.split(b"/")[0]
    value = random.choice([[], 7, {"stage": "quantized", "engine": "none"}, {"stage": "prepared"}, {"stage": 7}, {"stage": "reference", "tsq": None}])
    archive.entries.append(Entry(folder + b"/extra/tsq.json", json.dumps(value).encode()))
    return "tsq_json.added"


def change_record(random: Random, archive: Archive) -> str:
    entry = any_entry(random, archive)
    name, entry.data = byte_faults.any_fault(random, entry.data)
    return f"record.{name}"


def any_fault(random: Random, content: bytes, program: bool = False):
    """The name of a fault, and the archive with it, whose checksums are right unless the fault is that they are not."""
    if random.random() < 0.1:
        name, changed = byte_faults.any_fault(random, content)
        return f"bytes.{name}", changed
    archive = archives.read(content)
    choices = [change_structure] * 3 + [change_pickle] * 4 + [change_code] * 3 + [change_metadata] * 2 + [change_record]
    change = random.choice(choices + ([change_program] * 6 if program else []))
    name = change(random, archive)
    return name, archives.write(archive)
