#!/usr/bin/env python3
"""Leaves out one row of a table after the other, and says which no test misses.

    scripts/mutate_rows.py --table traits

The tests must be built (scripts/test.sh does it). Each row runs the suites of its table's room until the first
failure: first the tests that missed other rows, which take seconds, then all. Exit status 1: there are rows that no
test misses.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

SUITES = {
    "traits": ["operators_test", "passes_test"],
    "kernel_faults": ["passes_test"],
    "weighted_kernels": ["tables_test", "passes_test"],
    "binary_kernels": ["tables_test", "passes_test"],
    "unary_kernels": ["tables_test", "passes_test"],
    "fusers": ["config_test", "tables_test", "pytorch_tables_test", "passes_test"],
    "validator": ["runtime_test"],
    "attributes": ["runtime_test"],
    "post_ops": ["runtime_test"],
    "integers": ["runtime_test"],
}
ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(program, table, row, *options):
    environment = os.environ | {"TSQ_LEFT_OUT_ROW": f"{table}:{row}", "OMP_NUM_THREADS": "1"}
    return subprocess.run([program, "--gtest_fail_fast", "--gtest_brief=1", *options], env=environment,
                          capture_output=True, text=True, errors="replace", timeout=1800)


def rows_of(folder, table):
    """The number of rows, which the table tells when it is asked to leave out one that it does not have."""
    for suite in SUITES[table]:
        said = run(folder / suite, table, 10**9)
        found = re.search(f"table '{table}' has ([0-9]+) rows", said.stdout + said.stderr)
        if found:
            return int(found[1])
    sys.exit(f"mutate_rows: error: no suite asks for the table '{table}': build the tests with scripts/test.sh")


def failed_test(program, table, row, *options):
    """The first test of a program that fails without the row; None where all pass."""
    done = run(program, table, row, *options)
    if done.returncode == 0:
        return None
    failed = re.search(r"\[  FAILED  \] ([\w./]+)", done.stdout)
    return failed[1] if failed else f"exit status {done.returncode}"


def misses(folder, table, row, proven):
    """The first test that fails without the row; None where all pass. Each suite's `proven` tests go first."""
    tried = [(suite, [f"--gtest_filter={':'.join(sorted(proven[suite]))}"]) for suite in SUITES[table] if proven[suite]]
    for suite, options in tried + [(suite, []) for suite in SUITES[table]]:
        failed = failed_test(folder / suite, table, row, *options)
        if failed:
            if "." in failed:
                proven[suite].add(re.sub(r"/\w+$", "/*", failed))  # with all parameters
            return f"{suite}: {failed}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", required=True, choices=sorted(SUITES))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="where the tests were built")
    parser.add_argument("--rows", help="only these: 3 or 10-20")
    parser.add_argument("--jobs", type=int, default=2, help="rows at a time (default: 2)")
    options = parser.parse_args()
    folder = options.build / "bin"
    count = rows_of(folder, options.table)
    first, _, last = (options.rows or f"0-{count - 1}").partition("-")
    rows = range(int(first), int(last or first) + 1)
    without = []
    proven = {suite: set() for suite in SUITES[options.table]}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for row, missed in zip(rows, pool.map(lambda row: misses(folder, options.table, row, proven), rows)):
            print(f"{options.table}[{row}]: {missed or 'NO TEST MISSES IT'}", flush=True)
            without += [] if missed else [row]
    print(f"{len(rows)} of {count} rows of '{options.table}' left out, {len(without)} of them missed by no test")
    sys.exit(1 if without else 0)


if __name__ == "__main__":
    main()
