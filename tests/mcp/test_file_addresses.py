"""The file that the address of a resource names, for rules: as servers read addresses, not as they are spelled."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from friday_cli.mcp.tools import file_labels
from friday_cli.workspace.local import LocalWorkspace


@pytest.mark.parametrize(
    "form",
    [
        "file://{path}",
        "FILE://{path}",
        " file://{path}",
        "\x01file://{path}",
        "fi\tle://{path}",
        "file\n://{path}",
        "file:/\r/{path}",
        "file://localhost{path}",
        "file:{path}",
        "file:\\\\{path}",
        "file:{back}",
        "file://{coded}",
        "file://{path}?a=b",
        "file://{path}#part",
        "file://{folder}/../private/key.txt",
    ],
)
def test_a_resource_is_the_file_however_its_address_is_spelled(tmp_path: Path, form: str) -> None:
    root = tmp_path.resolve()
    path = str(root / "private" / "key.txt")
    for folder in ("private", "public"):
        (root / folder).mkdir()
    spelled = form.format(
        path=path,
        back=path.replace("/", "\\"),
        coded=quote(path).replace("e", "%65"),
        folder=root / "public",
    )
    assert "private/key.txt" in file_labels(spelled, LocalWorkspace(root))


@pytest.mark.parametrize("uri", ["", "https://example.org/file:", "note://file", "files:///x", "data:text/plain,file:"])
def test_other_addresses_name_no_file(tmp_path: Path, uri: str) -> None:
    assert file_labels(uri, LocalWorkspace(tmp_path)) == ()
