"""Runs a command and writes what it cost as JSON: processor seconds (user and system), peak megabytes, exit status.

  python -S cost.py FILE COMMAND ARGUMENT...

A process of its own, and a small one: Linux counts the memory of the process that starts another towards the peak of the other.
"""
import json
import os
import sys


def main() -> None:
    file, command = sys.argv[1], sys.argv[2:]
    started = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(started, 0)
    cost = {'seconds': usage.ru_utime + usage.ru_stime, 'megabytes': usage.ru_maxrss / 1000, 'status': os.waitstatus_to_exitcode(status)}
    with open(file, 'w') as written:
        json.dump(cost, written)


if __name__ == '__main__':
    main()
