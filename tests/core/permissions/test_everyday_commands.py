"""Commands of every day can be remembered: by a rule for the module, script, package or host that they name."""

from __future__ import annotations

import pytest

from friday_cli.core.permissions.suggest import lets_through, suggested_rule
from tests.core.permissions.test_rules import bash, rights

OFFERED = {
    "python3 -m pytest -q": "python3 -m pytest *", "python3 -m pytest -q 2>&1 | tail -5": "python3 -m pytest *",
    "python -m app.run 'a *'": "python -m app.run *", "python3 manage.py migrate": "python3 manage.py *",
    "cd . && python3 cli.py": "python3 cli.py *", "bash scripts/t.sh a": "bash scripts/t.sh *", "node build.mjs": "node build.mjs *",
    "uv run main.py": "uv run main.py *", "uv run python -m pytest -x": "uv run python -m pytest *",
    "npx eslint src": "npx eslint *", "npx -y create-x@1.2 a": "npx -y create-x@1.2 *", "curl -s https://x.org/a": "curl -s https://x.org/*",
    "curl 'https://x.org/a?b=1'": "curl *https://x.org/*", "curl https://x.org": "curl https://x.org",
    **dict.fromkeys((
        "python -m pip install x", "python -m pdb x.py", "python -m timeit x", "python -", "python ../x.py", "python /tmp/x.py", "python $X.py", "node -e x", "npx -c x", "npx -p x y",
        "curl -d @f https://x.org/", "curl -o f https://x.org/", "curl https://x.org/ https://y.org/", "curl https://u@x.org/", "curl x.org", "curl -K f",
    ), ""),
}  # fmt: skip


def test_the_narrowest_useful_rule_is_offered() -> None:
    found = {command: suggested_rule(bash(command)) for command in OFFERED}
    assert found == {command: pattern and f"bash({pattern})" for command, pattern in OFFERED.items()}


@pytest.mark.parametrize(
    ("rule", "covered", "asked"),
    [
        ("curl -s https://my-org.de/*", ("curl -s https://my-org.de/a", "curl -s https://my-org.de/@x"),
         ("curl -s https://my-org.de/a -o x", "curl -s https://my-org.de/a -d @x", "curl -s https://my-org.de/a de", "curl -s https://my-org.de/a https://x.org/",
          "curl -s https://my-org.de/a /", "curl -s https://my-org.de/a --output=x", "curl -s https://my-org.de/{a,b} -T x", "curl -s https://my-org.de/a > x")),
        ("curl *", ("curl https://x.org/a", "curl -d @f x.org"), ("curl https://x.org/a > x",)),
        ("curl -s *", ("curl -s https://x.org/a",), ("curl https://x.org/a", "wget -s x.org")),
        ("curl *x.org*", (), ("curl evil.org x.org",)),
        ("curl *https://x.org/*", ("curl 'https://x.org/a?b=1'", "curl https://x.org/"), ("curl y.org https://x.org/", "curl https://y.org/https://x.org/", "curl -o x https://x.org/")),
        ("python3 -m pytest *", ("python3 -m pytest", "python3 -m pytest -x a"),
         ("python3 -m pip install x", "python3 -m pytest2", "python3 -m pytest > x", "python3 -m pytest; make", "PATH=. python3 -m pytest", "sudo python3 -m pytest")),
        ("* --all", ("make --all",), ("python x.py --all", "npx x --all", "python -m x --all")),
    ],
)  # fmt: skip
def test_an_offered_rule_covers_nothing_that_it_does_not_name(
    rule: str, covered: tuple[str, ...], asked: tuple[str, ...]
) -> None:
    rules = rights(f"allow bash({rule})")
    assert {command: rules.decide(bash(command)).decision for command in covered} == dict.fromkeys(covered, "allow")
    assert {command: rules.decide(bash(command)).decision for command in asked} == dict.fromkeys(asked, "ask")


def test_a_line_says_what_a_rule_lets_through() -> None:
    call = bash("python3 -m pytest -q")
    assert lets_through(call, suggested_rule(call)).startswith("python3 -m pytest ...: with any arguments, without")
    assert lets_through(bash("make"), "bash(make)") == ""
