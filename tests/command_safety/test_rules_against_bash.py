"""Deny rules for files against commands that an attacker wrote: what a rule lets through is run in bash, and neither shows the
denied file nor changes a denied folder. A table of forms, and random commands made of them (`FRIDAY_FUZZ` makes more)."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from friday_cli.agents.agent_rules import path_readings
from friday_cli.command_safety import AnalysisContext, analyze
from friday_cli.core.permissions.rule import RuleInput, parse_rule
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.workspace.local import LocalWorkspace

CANARY = "CANARY-91c4"
VARIANTS = 1_000 * int(os.environ.get("FRIDAY_FUZZ", "1"))
READ_FORMS = r"""
tar cf - -T list ;; tar -cT list ;; tar --files-from=list -cf - ;; sort --files0-from=list0 ;; find -name key.txt -print0 | sort -z --files0-from=-
awk 'BEGIN{while((getline l<"private/key.txt")>0) print l}' ;; sed -n '1r private/key.txt' public.txt ;; sed 'R private/key.txt' public.txt
perl -e 'open F,"<private/key.txt";print <F>' ;; eval "cat priv""ate/key.txt" ;; trap 'cat private/key.txt' EXIT ;; flock list -c 'cat private/key.txt'
curl -s file:///proc/self/cwd/private/key.txt ;; cat /proc/self/cwd/private/key.txt ;; cat /proc/thread-self/cwd/private/key.txt
cat /proc/self/task/../cwd/private/key.txt ;; cat /dev/fd/../cwd/private/key.txt ;; cat /dev/../proc/self/cwd/private/key.txt
ln -s /proc/self/cwd q ;; cat own/private/key.txt ;; ln -s . q && cat q/private/key.txt ;; script -qc 'cat private/key.txt' /dev/null
IFS=,; x=cat,private/key.txt; $x ;; HOME=$PWD/private; cat ~/key.txt ;; export HOME=$PWD/private; cat ~/key.txt ;; read HOME <<< $PWD/private; cat ~/key.txt
CDPATH=private cd deep; cat ../key.txt ;; git archive HEAD ;; git fast-export HEAD ;; git format-patch --root --stdout HEAD
git cat-file --batch <<< HEAD:private/key.txt ;; git log -L1,1:private/key.txt ;; git checkout-index --prefix=out/ -a && cat out/private/key.txt
find . -maxdepth 0 -exec sh -c 'cat private/key.txt' \; ;; cp -l private/key.txt q; cat q ;; xargs -a list cat ;; mapfile -t a < list; cat "${a[@]}"
"""
WRITE_FORMS = r"""
cp --target-directory=src public.txt ;; cp -tsrc public.txt ;; sort -o src/a.py public.txt ;; sort --output=src/a.py public.txt ;; uniq public.txt src/a.py
tar xf a.tar ;; tar -xf a.tar -C src ;; tar cf src/a.py public.txt ;; patch -p0 < p.patch ;; git apply p.patch ;; git clean -fdx ;; git read-tree -u --reset HEAD
find src -fprint src/a.py ;; awk 'BEGIN{print "y" > "src/a.py"}' ;; awk '{print > "src/a.py"}' public.txt ;; sed -n 'w src/a.py' public.txt
curl -so src/a.py file:///etc/hostname ;; curl file:///etc/hostname --output src/a.py ;; wget -O src/a.py http://localhost:1/ ;; cat public.txt > s?c/a.py
ln -s src q; echo y > q/a.py ;; ln src/a.py q; echo y > q ;; cp -l src/a.py q; echo y > q ;; cp -al src q; echo y > q/a.py
split -b 1 public.txt src/a.py ;; csplit -f src/a.py public.txt 1 ;; gzip src/a.py ;; chmod 000 src/a.py ;; mkdir -p src/n/m ;; mkfifo src/f ;; install -d src/q
ex -s +d +x src/a.py ;; mktemp -p src ;; mktemp src/XXXX ;; script -qc true src/a.py ;; git worktree add src/wt ;; git init src/x ;; git clone . src/clone
openssl rand -out src/a.py 4 ;; ssh-keygen -q -N '' -f src/k ;; logsave src/a.py true ;; iconv -o src/a.py public.txt ;; eval 'rm src/a.py'
trap 'rm src/a.py' EXIT ;; flock list -c 'rm src/a.py' ;; find . -maxdepth 0 -exec sh -c 'rm src/a.py' \; ;; HOME=$PWD/src; rm ~/a.py
rm /proc/self/cwd/src/a.py ;; cd /proc/self/cwd/src; rm a.py ;; python3 -c "open('src/a.py','w')" ;; perl -e 'unlink "src/a.py"' ;; mv src/a.py q
"""
ALLOWED_READ = (
    "cat public.txt",
    "ls",
    "python3 x.py",
    "ln -s src q",
    "git stash",
    "make",
    "cd src && ls",
    "tar cf q.tar src",
    'git commit -m "see private/key.txt"',
)
ALLOWED_WRITE = ("cat src/a.py", "touch x", "gzip -c src/a.py", "git switch main", "curl -o x http://localhost:1/", "make", "pytest src", "python3 src/a.py", "gcc src/a.c -o a", "tar tf a.tar")  # fmt: skip
READERS = ("cat {}", "tac {}", "sort {}", "awk 1 {}", "sed -n p {}", "cat < {}", "perl -ne print {}", "cp {} q; cat q", "dd if={}", "tar cO {}", "eval 'cat {}'", "od -c {}",
           "python3 -c \"print(open('{}').read())\"", "echo {} | xargs cat", "grep -r . {}", "x=$(cat {}); echo $x", "while read l; do echo $l; done < {}", "curl -s file://$PWD/{}", "git diff --no-index /dev/null {}")  # fmt: skip
WRITERS = ("echo y > {}", "rm {}", "tee {} < public.txt", "cp public.txt {}", "mv {} q", "ln -f public.txt {}", "sed -i s/x/y/ {}", "truncate -s 0 {}", "sort -o {} public.txt", "dd of={} if=public.txt",
           "chmod 600 {}", "gzip {}", "perl -pi -e s/x/y/ {}", "eval 'rm {}'", "echo {} | xargs rm", "awk '{{print > \"{}\"}}' public.txt", "install public.txt {}", "echo y >> {}", "cp -l {} q; echo y > q")  # fmt: skip
PATHS = (
    "{d}/{f}",
    "./{d}/{f}",
    "{d}//{f}",
    "other/../{d}/{f}",
    "$PWD/{d}/{f}",
    "/proc/self/cwd/{d}/{f}",
    "own/{d}/{f}",
    "{l}/{f}",
    "other/up/{d}/{f}",
    "{h}?{t}/{f}",
    "{d}/*{e}",
    "./*/{f}",
    "{d}/./{f}",
)
AROUND = ("{}", "({})", "{{ {}; }}", "true && {}", "cd other && cd .. && {}", "if true; then {}; fi", "timeout 5 bash -c \"{}\"", "for i in 1; do {}; done", "! {}", "f() {{ {}; }}; f", "cd . ; {}", "env true; {}", "{} &\nwait")  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with a file that must not be shown, and a folder that must not be changed."""
    for name, text in {"private/key.txt": CANARY, "private/deep/x": "x", "src/a.py": "x = 1\n", "public.txt": "p\n", "other/y": "y"}.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name, target in {"plink": "private", "slink": "src", "own": "/proc/self/cwd", "other/up": ".."}.items():
        (tmp_path / name).symlink_to(target)
    return tmp_path


def rights(folder: Path, rule: str) -> Rules:
    readings = partial(path_readings, folders=(str(folder),))
    return Rules(mode="yolo", rules=[parse_rule(rule, "deny", TOOLS, readings=readings)])


def passes(command: str, rules: Rules, context: AnalysisContext) -> bool:
    """Whether a command would run in mode yolo, where nobody is asked."""
    return rules.decide(RuleInput("bash", "run", (command,), analyze(command, context))).decision == "allow"


@pytest.mark.parametrize(
    ("rule", "forms", "allowed"),
    [("Read(private/**)", READ_FORMS, ALLOWED_READ), ("Edit(src/**)", WRITE_FORMS, ALLOWED_WRITE)],
)
def test_no_form_passes_a_deny_rule(folder: Path, rule: str, forms: str, allowed: tuple[str, ...]) -> None:
    context, rules = AnalysisContext(LocalWorkspace(folder)), rights(folder, rule)
    each = [form.strip() for line in forms.strip().splitlines() for form in line.split(" ;; ")]
    assert [form for form in each if passes(form, rules, context)] == []
    assert [one for one in allowed if not passes(one, rules, context)] == []


def made(rng: random.Random, forms: tuple[str, ...], folder: str, file: str, link: str) -> str:
    path = rng.choice(PATHS).format(d=folder, f=file, l=link, h=folder[:1], t=folder[2:], e=file[-4:])
    return rng.choice(AROUND).format(rng.choice(forms).format(path))


@pytest.mark.parametrize(
    ("rule", "forms", "name", "file", "link"),
    [("Read(private/**)", READERS, "private", "key.txt", "plink"), ("Edit(src/**)", WRITERS, "src", "a.py", "slink")],
)
def test_no_random_command_that_passes_shows_or_changes_it(
    folder: Path, rule: str, forms: tuple[str, ...], name: str, file: str, link: str
) -> None:
    context, rules, rng = AnalysisContext(LocalWorkspace(folder)), rights(folder, rule), random.Random(20261128)
    bad, ran = [], 0
    for _ in range(VARIANTS):
        command = made(rng, forms, name, file, link)
        if not passes(command, rules, context):
            continue
        ran += 1
        copy = folder.parent / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy, symlinks=True)
        found = subprocess.run(["bash", "-c", command], cwd=copy, capture_output=True, timeout=30, check=False)
        kept = (copy / "src/a.py").exists() and (copy / "src/a.py").read_text() == "x = 1\n"
        if CANARY.encode() in found.stdout + found.stderr or (name == "src" and not kept):
            bad.append(command)
    assert bad == []
    assert ran < VARIANTS / 20
