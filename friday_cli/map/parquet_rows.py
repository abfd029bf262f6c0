"""Prints the rows of a Parquet file as JSON lines. A program of its own with a limit of memory: a small file may unpack to any size, and a damaged
one may end the library that reads it. Standard input is the file."""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

import msgspec

MEMORY = 3 * 2**30
"""Bytes of address space, of which the libraries take about one GB."""
BATCH = 500
"""Rows that are in memory at once."""
BATCH_BYTES = 64_000_000
"""Bytes of these rows."""


def main() -> None:
    """Print the columns as a list, each row as an object, and null at the end; where the file cannot be read, a text that says why."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        _print_rows()
    except BrokenPipeError:
        os._exit(0)
    except MemoryError:
        _put("needs more memory than a file of items may")
    except Exception as error:  # of any kind: the library raises its own, OSError, ValueError, OverflowError and others
        _put(f"cannot be read: {(str(error) or type(error).__name__).splitlines()[0][:200]}")
    sys.stdout.buffer.flush()
    os._exit(0)


def _print_rows() -> None:
    from pyarrow import parquet

    table = parquet.ParquetFile(os.fdopen(0, "rb"))
    _put(table.schema_arrow.names)
    for batch in table.iter_batches(batch_size=BATCH, use_threads=False):
        if batch.nbytes > BATCH_BYTES:
            raise ValueError(f"up to {BATCH} of its rows are more than {BATCH_BYTES // 10**6} MB")
        for values in batch.to_pylist():
            _put(values)
    _put(None)


def _put(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value, enc_hook=str) + b"\n")


if __name__ == "__main__":
    main()
