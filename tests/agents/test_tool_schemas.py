"""The JSON Schemas of tools that are kept between starts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from friday_cli.agents import tool_schemas
from friday_cli.agents.tool_schemas import KeptSchemas
from friday_cli.core.protocol import tool as tool_module
from friday_cli.tools import files


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"FRIDAY_HOME": str(tmp_path)}


def made(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many schemas a new start makes; all are right."""
    count = 0

    def counted(args: type) -> object:
        nonlocal count
        count += 1
        return schema_of(args)

    schema_of = tool_module.schema_of
    with monkeypatch.context() as patch:
        patch.setattr(tool_module, "schema_of", counted)
        kept = KeptSchemas(env)
        specs = kept.specs(files.tools())
        assert kept.specs(files.tools()) == specs
    assert specs == tuple(tool.spec for tool in files.tools())
    return count


def test_another_start_makes_none(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(env, monkeypatch) == len(files.tools())
    assert made(env, monkeypatch) == 0


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'["", {"x": 1}]', b'["", {}] more', None])
def test_a_damaged_or_missing_file_is_replaced(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    made(env, monkeypatch)
    (path,) = (Path(env["FRIDAY_HOME"]) / "cache").glob("tool-schemas")
    path.unlink() if content is None else path.write_bytes(content)
    assert made(env, monkeypatch) == len(files.tools())
    assert made(env, monkeypatch) == 0


def test_what_others_can_write_is_not_read(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    made(env, monkeypatch)
    path = Path(env["FRIDAY_HOME"]) / "cache" / "tool-schemas"
    path.chmod(0o666)
    assert made(env, monkeypatch) == len(files.tools())


def test_changed_code_makes_them_again(env: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = tmp_path / "code"
    shutil.copytree(Path(files.__file__).parent, code, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(tool_schemas, "_CODE", (code, Path(tool_module.__file__)))
    made(env, monkeypatch)
    assert made(env, monkeypatch) == 0
    os.utime(code / "edit_match.py", ns=(1, 1))
    assert made(env, monkeypatch) == len(files.tools())


def test_a_folder_that_cannot_be_written_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    env = {"FRIDAY_HOME": str(tmp_path)}
    assert made(env, monkeypatch) == made(env, monkeypatch) == len(files.tools())
