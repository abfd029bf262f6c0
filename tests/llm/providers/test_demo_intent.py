"""What the demo makes of a prompt: what a rule covers wholly, and nothing else."""

from __future__ import annotations

import pytest

from friday_cli.llm.providers.demo.intent import Intent, intent

OVERVIEW = """\
What is in this folder?
what's in here
what is this project about?
Give me an overview of this repo
what does this repo do?
please summarize this project
explain this codebase
hello, what is in this folder?
show me what is in this folder
look around"""

UNKNOWN = """\
why does this fail?
what is the meaning of life
what is wrong in this project
write a poem
fix all TODOs
run the tests
how does the loop work?
refactor core/agent/loop.py
was ist in diesem Ordner?
list all functions
how many users does it have
how many lines were added yesterday
how many files did you change
how many commits are there
how big is this project
what is the biggest problem
what is a todo
who wrote the todos
find out why it fails
read the manual
open the door
count to ten
count the words
search
find"""


@pytest.mark.parametrize("prompt", OVERVIEW.splitlines())
def test_an_overview(prompt: str) -> None:
    assert intent(prompt) == Intent("overview")


@pytest.mark.parametrize("prompt", UNKNOWN.splitlines())
def test_what_no_rule_covers_is_unknown(prompt: str) -> None:
    assert intent(prompt) == Intent("unknown")


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("hi", Intent("hello")),
        ("What can you do?", Intent("hello")),
        ("find Session", Intent("find", "Session")),
        ("where is Session.open defined?", Intent("find", "Session.open")),
        ("where is the class DemoProvider defined", Intent("find", "DemoProvider")),
        ("which files contain asyncio", Intent("find", "asyncio")),
        ('search for "hello world" in src/app.py', Intent("find", "hello world", path="src/app.py")),
        ("find main in src", Intent("find", "main", path="src")),
        ("find *.py files", Intent("list", glob="*.py")),
        ("count lines", Intent("count", thing="lines")),
        ("how many lines of python are in src?", Intent("count", thing="lines", path="src", glob="*.py")),
        ("how many lines does README.md have?", Intent("count", thing="lines", path="README.md")),
        ("how long is README.md", Intent("count", thing="lines", path="README.md")),
        ("how many files are in the folder src", Intent("count", thing="files", path="src")),
        ("how many python files in tests", Intent("count", thing="files", path="tests", glob="*.py")),
        ("how many functions are there in python", Intent("count", thing="definitions", glob="*.py")),
        ("count `TODO`", Intent("count", "TODO", "text")),
        ("how many times does asyncio occur", Intent("count", "asyncio", "text")),
        ("read README.md", Intent("read", "README.md")),
        ("show me the README", Intent("read", "README")),
        ("what is in README.md", Intent("read", "README.md")),
        ("what's in src/", Intent("list", path="src/")),
        ("ls", Intent("list")),
        ("list files in src/app", Intent("list", path="src/app")),
        ("list python files in tests", Intent("list", path="tests", glob="*.py")),
        ("which folders are there", Intent("list")),
        ("Which files are the largest?", Intent("largest")),
        ("what is the longest python file in src", Intent("largest", path="src", glob="*.py")),
        ("todos?", Intent("todos")),
        ("find TODO in src/", Intent("todos", path="src/")),
        ("run `git status`", Intent("run", "git status")),
        ("run ls -la", Intent("run", "ls -la")),
        ("count lines\n\n<stdin>\nread README.md\n</stdin>", Intent("count", thing="lines")),
    ],
)
def test_a_question_that_calls_answer(prompt: str, expected: Intent) -> None:
    assert intent(prompt) == expected


@pytest.mark.parametrize(
    "prompt", ["a " * 100_000, "what is in " * 5_000, "list " + "*." * 20_000, "`" * 50_000, "find the " * 9_000]
)
def test_a_long_prompt_is_no_burden(prompt: str) -> None:
    assert intent(prompt).kind in ("unknown", "find", "list")
