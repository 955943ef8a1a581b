"""Runs one command and says what is wrong with how it ended; nothing is, where it ended as docs/command_line.md promises."""

import os
import re
import resource
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List

LONGEST_SECONDS = 10
MOST_BYTES = 2 << 30
LONGEST_SENTENCE = 600
DONE, BAD_INPUT, BAD_USAGE = 0, 1, 2
OUTPUTS = ["out.pt", "out.json", "out.html"]
_SENTENCE = "tsq: error: "


@dataclass
class Run:
    status: int  # negative: the signal
    seconds: float
    stdout: str
    stderr: str
    stopped: str = ""  # why it was ended from outside
    faults: List[str] = field(default_factory=list)


def family(process: int) -> List[int]:
    """A process and those that it started."""
    try:
        found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        found = []
    return [process] + [other for child in found for other in family(int(child))]


def resident_bytes(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def watch(process: subprocess.Popen, limit_seconds: float) -> str:
    """Waits for the end; says why it had to be ended. Memory is looked at often: zeros are written at gigabytes a second."""
    begin = time.monotonic()
    while True:
        try:
            process.wait(timeout=0.02)
            return ""
        except subprocess.TimeoutExpired:
            pass
        if sum(resident_bytes(one) for one in family(process.pid)) > MOST_BYTES:
            return "memory"
        if time.monotonic() - begin > limit_seconds:
            return "time"


def run(arguments: List[str], folder: Path, limit_seconds: float = LONGEST_SECONDS) -> Run:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
    with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
        begin = time.monotonic()
        process = subprocess.Popen(arguments, cwd=folder, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL, env=environment,
                                   start_new_session=True)
        stopped = watch(process, limit_seconds)
        if stopped:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    # Whatever a bench left running.
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    text = [(folder / name).read_bytes()[:100000].decode("utf-8", "replace") for name in ("stdout", "stderr")]
    return Run(process.returncode, time.monotonic() - begin, *text, stopped)


def control_characters(text: str) -> bool:
    return re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text) is not None


def faults_of_sentence(run_: Run) -> List[str]:
    lines = [line for line in run_.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(_SENTENCE)]
    if not errors:
        return ["no sentence"]
    found = []
    if len(errors) > 1:
        found.append("several sentences")
    if len(errors[0]) > LONGEST_SENTENCE:
        found.append("long sentence")
    if lines[-1] != errors[-1]:
        found.append("text after the sentence")
    if re.search(r"c10::|at::|std::|json\.exception|Exception raised|terminate called|\.cpp:\d|basic_string|vector::", errors[0]):
        found.append("sentence with C++ in it")
    return found


def left_files(folder: Path, before: Dict[str, bytes]) -> List[str]:
    known = {*before, "stdout", "stderr"}
    return sorted(path.name for path in folder.iterdir() if path.name not in known)


def judge(run_: Run, folder: Path, before: Dict[str, bytes]) -> Run:
    """Fills in `faults`. `before`: the files of the folder before the command ran, by name."""
    faults = run_.faults
    if run_.stopped:
        faults.append(f"too much {run_.stopped}")
    elif run_.status < 0:
        faults.append(f"signal {signal.Signals(-run_.status).name}")
    elif run_.status not in (DONE, BAD_INPUT, BAD_USAGE):
        faults.append(f"status {run_.status}")
    if not run_.stopped and run_.status > 0:
        faults.extend(faults_of_sentence(run_))
    if control_characters(run_.stdout) or control_characters(run_.stderr):
        faults.append("control characters")
    for name, content in before.items():
        if (folder / name).read_bytes() != content:
            faults.append("input changed")
    left = left_files(folder, before)
    if run_.status == DONE:
        left = [name for name in left if name not in OUTPUTS]
    if left and not run_.stopped and run_.status >= 0:
        faults.append("files left: " + ", ".join(re.sub(r"\.tsq-\w+", ".tsq-XXXXXX", name) for name in left))
    return run_
