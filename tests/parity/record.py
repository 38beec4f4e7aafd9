#!/usr/bin/env python3
"""Records what tiny models give in transformers 5.23.0: one JSON file a case, which holds the configuration, names and
shapes of the weights (weights.py gives their values) and the numbers. README.md describes the files.

usage: record.py FOLDER [CASE...]    records the cases (all of cases.py), into FOLDER/CASE.json
       record.py --check FOLDER      records again what lies in FOLDER; fails where a byte differs
       record.py --list              names the cases
"""

import os
import pathlib
import sys

# The same instructions on every x86-64, so that the same bytes come out.
os.environ.update(
    ATEN_CPU_CAPABILITY="default",
    MKL_CBWR="COMPATIBLE",
    OMP_NUM_THREADS="1",
    HF_HUB_OFFLINE="1",
    HF_HUB_DISABLE_PROGRESS_BARS="1",
    TRANSFORMERS_VERBOSITY="error",
)

import cases

VERSION = "5.23.0"


def main(arguments):
    if arguments == ["--list"]:
        return print("\n".join(cases.names()))
    check = arguments[:1] == ["--check"]
    if len(arguments) < 1 + check or arguments[0].startswith("-") != check:
        sys.exit(__doc__)
    folder = pathlib.Path(arguments[check])
    import transformers

    if transformers.__version__ != VERSION:
        sys.exit(f"transformers {transformers.__version__} is here; the numbers are those of {VERSION}")
    import families

    chosen = arguments[check + 1 :] or (sorted(p.stem for p in folder.glob("*.json")) if check else cases.names())
    unknown = set(chosen) - set(cases.names())
    if unknown:
        sys.exit(f"unknown cases: {', '.join(sorted(unknown))}; --list names those there are")
    differing = []
    for name in chosen:
        text = families.record(name)
        path = folder / f"{name}.json"
        same = path.exists() and path.read_text() == text
        if not check:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not same:
            differing.append(name)
        print(f"{name}: {len(text)} bytes{', the same as before' if same else ''}", flush=True)
    if differing:
        sys.exit(f"recorded again, these differ: {', '.join(differing)}")


if __name__ == "__main__":
    main(sys.argv[1:])
