"""Reads the JSON in a file of a person, a project or a plugin."""

from __future__ import annotations

import codecs
import json
from typing import Any

from friday_cli.core.protocol.errors import FileError

LARGEST = 1_000_000
"""Maximum size of a file in bytes."""


def read_json(file: str, raw: bytes) -> Any:
    """What the bytes of `file` say. Raises FileError, with the line if it is known."""
    if len(raw) > LARGEST:
        raise FileError(file, f"is larger than {LARGEST:,} bytes.")
    try:
        return json.loads(raw.removeprefix(codecs.BOM_UTF8).decode())
    except UnicodeDecodeError:
        raise FileError(file, "is not UTF-8 text.", hint="Save it as UTF-8.") from None
    except json.JSONDecodeError as failed:
        hint = "JSON has no comments and no comma after the last item, and each bracket is closed."
        raise FileError(file, f"is not valid JSON: {failed.msg}.", line=failed.lineno, hint=hint) from None
    except RecursionError:
        raise FileError(file, "is nested too deeply.") from None
    except ValueError as failed:  # a number with too many digits
        raise FileError(file, f"is not valid JSON: {failed}.") from None
