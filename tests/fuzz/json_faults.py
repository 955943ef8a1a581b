"""Faults of JSON: of the text, and of values in their places."""

import json
from random import Random

NUMBERS = [0, -1, 1, 2, 3, 7, 255, 256, -129, 2**31 - 1, 2**31, -2**31, 2**32, 2**53, 2**62, 2**63 - 1, -2**63, 2**63, 2**64 - 1,
           2**64, 10**30, 0.5, -0.0, 1e-320, 1e300, -1e300, 1e39, 1e-45]
STRINGS = ["", "\0", "\x1b[31m", "a" * 100000, "ö\u202e", "x\ny", "(", "[", "(?R)", "(a+)+$", ".*" * 5000, "relu", "convolution", "f32",
           "i64", "s8", "u8", "quint8", "x86", "..", "/", "${HOME}", "%s%n{}{0}", "'"]
RAW = ["1e400", "-1e400", "9" * 4000, "-" + "9" * 4000, "0." + "3" * 4000, "1e-99999", "NaN", "Infinity", "[" * 100000,
       '{"a":' * 100000, "[" * 60 + "]" * 60, '"\\ud800"', '"\xff"', '"' + "b" * 3000000 + '"', "[" + "0," * 300000 + "0]",
       "{" + ",".join(f'"k{i}":0' for i in range(100000)) + "}"]
MARK = "tsq\u2603mark"


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], path + (key,))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from places(value[index], path + (index,))


def at(value, path):
    for step in path:
        value = value[step]
    return value


def replaced(value, path, new):
    if not path:
        return new
    at(value, path[:-1])[path[-1]] = new
    return value


def other_scalar(random: Random, old):
    if isinstance(old, bool):
        return random.choice([not old, 1, "true", None])
    if isinstance(old, (int, float)):
        return random.choice([random.choice(NUMBERS), random.choice(NUMBERS), old + random.choice([-1, 1]), -old, old * 2])
    if isinstance(old, str):
        return random.choice([random.choice(STRINGS), old[:-1], old + "x", old.upper(), old * 2])
    return random.choice([None, [], {}, 0, "", [None], {"": {}}])


def change_scalar(random: Random, value):
    leaves = [path for path in places(value) if not isinstance(at(value, path), (dict, list))]
    path = random.choice(leaves or [()])
    return replaced(value, path, other_scalar(random, at(value, path)))


def change_type(random: Random, value):
    path = random.choice(list(places(value)))
    return replaced(value, path, random.choice([None, True, 0, -1, 1.5, "", "x", [], {}, [[]], [0, 1], {"a": 1}]))


def drop_member(random: Random, value):
    path = random.choice(list(places(value)))
    if path:
        del at(value, path[:-1])[path[-1]]
    return value


def copy_value(random: Random, value):
    paths = list(places(value))
    copied = json.loads(json.dumps(at(value, random.choice(paths))))
    return replaced(value, random.choice(paths), copied)


def change_length(random: Random, value):
    lists = [path for path in places(value) if isinstance(at(value, path), list)]
    if not lists:
        return value
    found = at(value, random.choice(lists))
    change = random.choice(["empty", "double", "swap", "many", "pop"])
    if change == "empty":
        found.clear()
    elif found and change == "double":
        found.append(found[random.randrange(len(found))])
    elif len(found) > 1 and change == "swap":
        a, b = random.sample(range(len(found)), 2)
        found[a], found[b] = found[b], found[a]
    elif found and change == "pop":
        found.pop()
    elif found and len(json.dumps(found[-1])) < 200:
        found.extend([found[-1]] * 2000)
    return value


def rename_key(random: Random, value):
    objects = [path for path in places(value) if isinstance(at(value, path), dict) and at(value, path)]
    if not objects:
        return value
    found = at(value, random.choice(objects))
    old = random.choice(list(found))
    found[random.choice(STRINGS + [old + "x", old[:-1]])] = found.pop(old)
    return value


VALUE_FAULTS = [change_scalar, change_scalar, change_scalar, change_type, drop_member, copy_value, change_length, rename_key]


def raw_text(random: Random, value):
    path = random.choice(list(places(value)))
    marked = json.dumps(replaced(value, path, MARK))
    return marked.replace(json.dumps(MARK), random.choice(RAW), 1)


def any_fault(random: Random, text: str):
    """The name of a fault, and the text with it."""
    value = json.loads(text)
    if random.random() < 0.2:
        return "raw_text", raw_text(random, value)
    faults = random.choices(VALUE_FAULTS, k=random.choice([1, 1, 1, 2, 4]))
    for fault in faults:
        value = fault(random, value)
    written = json.dumps(value)
    return "+".join(sorted({fault.__name__ for fault in faults})), written
