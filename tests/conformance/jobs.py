"""Jobs of test programs: C++ programs that serve many, and processes that each do one."""

import json
import os
import signal
import subprocess
import time
import traceback
import zlib
from typing import Callable

# A job that takes longer is stopped and fails.
JOB_SECONDS = 600
FAILED = "FAIL"


def is_drawn(name: str, one_in: int) -> bool:
    """One name in so many, the same ones in every run."""
    return zlib.crc32(name.encode()) % one_in == 0


class JobServer:
    """A running program that answers each line of JSON with one, as `quantize_cases` does; one process at a time may ask."""

    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=one_thread()
        )

    def ask(self, job) -> dict:
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def one_thread() -> dict:
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def forked(jobs: list, work: Callable, slots: list, report: Callable) -> None:
    """A process each, so that a crash of a kernel ends one job only. `slots`: what at most that many processes at a time have to themselves, each its own."""
    waiting, running, free = list(reversed(jobs)), {}, list(slots)
    while waiting or running:
        while waiting and free:
            job, slot = waiting.pop(), free.pop()
            read_end, write_end = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(read_end)
                signal.alarm(JOB_SECONDS + 60)
                _silence()
                try:
                    answer = work(job, slot)
                except BaseException:
                    answer = (FAILED, "harness: " + traceback.format_exc()[-1500:])
                with os.fdopen(write_end, "w") as pipe:
                    json.dump(answer, pipe)
                os._exit(0)
            os.close(write_end)
            running[child] = (job, slot, read_end, time.monotonic())
        child, status = os.waitpid(-1, 0)
        if child not in running:
            continue
        job, slot, read_end, start = running.pop(child)
        free.append(slot)
        with os.fdopen(read_end) as pipe:
            text = pipe.read()
        answer = json.loads(text) if text else (FAILED, f"the process of this case ended with status {status}")
        report(job, *answer, time.monotonic() - start)


def _silence() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
