"""Input of `friday ask`: the argument, standard input, files named with @, pictures and a schema for the answer."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from tests.e2e.friday import Friday
from tests.servers.fake_model_server import WIRES, Say, Turn, Wire

ECHO = "agents: {a: [{text: '{last}'}]}"
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


EMPTY = 'friday: No prompt: standard input is empty. Run `friday ask "your question"`, or pipe the question in.\n'


@pytest.mark.parametrize(
    ("prompt", "given", "out"),
    [
        (["explain"], "\ufeffline é\r\nlast\n".encode(), "explain\n\n<stdin>\nline é\nlast\n</stdin>\n"),
        *(([*prompt], b"all of it\xff\n", "all of it\ufffd\n") for prompt in ("-", "")),
        *(([*prompt], given, EMPTY) for prompt in ("-", "") for given in (b"", b" \n\t")),
        *((["hi"], given, "hi\n") for given in (None, b"", b" \n")),
    ],
)
def test_standard_input_is_the_prompt_or_added_to_it(
    friday: Friday, prompt: list[str], given: bytes | None, out: str
) -> None:
    friday.plays(ECHO)
    ran = friday.run(*prompt, input=given)  # None: /dev/null
    assert (ran.code, ran.err if ran.code else ran.out) == (2 if out == EMPTY else 0, out)


def test_a_command_says_which_shell_commands_of_its_text_are_not_run(friday: Friday) -> None:
    friday.plays(ECHO)
    file = friday.project / ".friday/commands/pay.md"
    file.parent.mkdir(parents=True)
    file.write_text("Pay $4,050 to $1: !`touch made`", encoding="utf-8")
    ran = friday.run("--trust", "/pay me now")
    assert ran.out == "Pay $4,050 to me: !`touch made`\n"
    assert "friday: /pay: not run, sent as text: touch made." in ran.err
    assert not (friday.project / "made").exists()


def test_what_is_piped_in_names_no_file(friday: Friday) -> None:
    """A diff, a log or a web page must not choose the files that are attached."""
    friday.plays(ECHO)
    (friday.project / "a.txt").write_text("alpha\n", encoding="utf-8")
    ran = friday.run("look", input=b"@a.txt\n@app.route('/x')\n")
    assert ran.out == "look\n\n<stdin>\n@a.txt\n@app.route('/x')\n</stdin>\n"
    assert "not attached" not in ran.err
    ran = friday.run("look at @a.txt", input=b"and this\n")
    assert ran.out == ('look at @a.txt\n\n<file path="a.txt">\nalpha\n\n</file>\n\n<stdin>\nand this\n</stdin>\n')


def test_an_input_that_never_closes_does_not_hang(friday: Friday, monkeypatch: pytest.MonkeyPatch) -> None:
    friday.plays(ECHO)
    reading, writing = os.pipe()
    monkeypatch.setattr("friday_cli.frontends.oneshot.input.FIRST_BYTE_S", 0.05)
    with os.fdopen(reading) as stdin, os.fdopen(writing, "w"):
        monkeypatch.setattr("sys.stdin", stdin)
        ran = friday("hi")
    assert (ran.code, ran.out) == (0, "hi\n")
    assert "no data on standard input after 0 s; continuing without it" in ran.err


def test_too_much_input(friday: Friday) -> None:
    friday.plays(ECHO)
    with Path("/dev/zero").open("rb") as zeros:
        ran = friday.run("-", stdin=zeros)
    assert (ran.code, "longer than 10 MB" in ran.err) == (2, True)


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_a_prompt_and_a_folder_that_are_no_text(friday: Friday, output: str) -> None:
    friday.plays(ECHO)
    folder = os.fsdecode(os.fsencode(friday.project) + b"/d\xff")
    Path(folder).mkdir()
    ran = friday.run(os.fsdecode(b"say \xff it"), "-C", folder, "--output-format", output)
    assert ran.code == 0
    assert "say \ufffd it" in ran.out
    assert friday.run("again", "-c", "-C", folder, "--output-format", output).code == 0
    for line in ran.out.splitlines() if output != "text" else ():
        json.loads(line)


@pytest.mark.parametrize("wire", WIRES)
def test_files_and_pictures_named_in_the_prompt(friday: Friday, wire: Wire) -> None:
    (friday.project / "dot.png").write_bytes(DOT)
    (friday.project / "notes of mine.txt").write_text("remember\n", encoding="utf-8")
    (friday.project / "sub").mkdir()
    (friday.project / "sub" / "x.py").write_text("x = 1\n", encoding="utf-8")
    (friday.project / ".env").write_text("TOKEN=hush\n", encoding="utf-8")

    def rule(turn: Turn) -> Say:
        assert turn.messages[0]["images"] == 1
        text = turn.messages[0]["text"]
        assert '<file path="notes of mine.txt">\nremember' in text
        assert '<file path="sub/x.py">\nx = 1' in text
        assert '<folder path="sub">\nx.py' in text
        assert "mail me@sub and @nobody" in text
        assert "hush" not in text
        return Say("seen")

    with friday.meets(rule, wire):
        ran = friday('see @dot.png, @"notes of mine.txt", @sub/x.py. and @sub; mail me@sub and @nobody; @.env')
    assert (ran.code, ran.out) == (0, "seen\n")
    assert any("@.env: it may hold secrets" in line for line in ran.lines)


def test_a_file_outside_is_not_attached(friday: Friday) -> None:
    friday.plays(ECHO)
    (friday.home / "secret.txt").write_text("hush", encoding="utf-8")
    (friday.project / "link.txt").symlink_to(friday.home / "secret.txt")
    ran = friday(f"see @../home/secret.txt @{friday.home}/secret.txt @link.txt")
    assert ran.code == 0
    assert "hush" not in ran.out


def test_another_folder_may_be_added(friday: Friday, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "b.txt").write_text("beta", encoding="utf-8")
    reading = f"agents: {{a: [{{calls: [{{name: read_file, arguments: {{path: '{more}/b.txt'}}}}]}}, {{text: '{{results}}'}}]}}"
    friday.plays(reading)
    assert "beta" not in friday("look").out
    assert "beta" in friday("look", "--add-dir", str(more)).out
    assert "beta" in friday("look", "-C", str(more)).out
    assert "beta" in friday(f"see @{more}/b.txt", "--add-dir", str(more), model=f"scripted:{_echo(friday)}").out


def _echo(friday: Friday) -> Path:
    path = friday.home / "echo.yaml"
    path.write_text(ECHO, encoding="utf-8")
    return path


SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_that_fits_the_schema(friday: Friday, wire: Wire) -> None:
    def rule(turn: Turn) -> Say:
        assert '"required": ["n"]' in turn.last
        return Say('```json\n{"n": 7}\n```' if len(server.turns) > 1 else '{"n": 7}')

    (friday.project / "schema.json").write_text("\ufeff" + SCHEMA, encoding="utf-8")
    with friday.meets(rule, wire) as server:
        for given in (SCHEMA, "schema.json"):
            assert friday("count", "--json-schema", given).out == '{"n": 7}\n'


def test_an_answer_that_is_mended(friday: Friday) -> None:
    says = ["seven", '{"n": "7"}', '{"n": 7}']
    complaints = ["", "it is not JSON", "at $.n: '7' is not of type 'integer'"]

    def rule(turn: Turn) -> Say:
        assert complaints[turn.turn] in turn.last
        return Say(says[turn.turn])

    with friday.meets(rule) as server:
        ran = friday.json("count", "--json-schema", SCHEMA)
    assert (ran.code, ran.document["result"], len(server.turns)) == (0, '{"n": 7}', 3)


def test_an_answer_that_never_fits(friday: Friday) -> None:
    friday.plays("agents: {a: {turns: [{text: 'seven, I think'}], repeat: last}}")
    ran = friday.json("count", "--json-schema", SCHEMA)
    assert (ran.code, ran.document["status"], ran.document["stop_reason"]) == (1, "failed", "reported")
    assert "required schema: it is not JSON" in ran.document["error"]
