"""Hook commands that run a script of the project, put together at random: how the script is named, what runs it, and what stands around."""

from __future__ import annotations

import random
from pathlib import Path

FILES = {
    "scripts/g.sh": "#!/bin/sh\necho scripts/g.sh >> ../witness\necho scripts/g.sh >> witness\n",
    "g.sh": "#!/bin/sh\necho g.sh >> witness\n",
    "sub/deep/g.sh": "#!/bin/sh\necho sub/deep/g.sh >> witness\n",
    "scripts/__main__.py": "open('witness', 'a').write('scripts/__main__.py\\n')\n",
    "scripts/g.py": "open('witness', 'a').write('scripts/g.py\\n')\n",
    "g.py": "open('witness', 'a').write('g.py\\n')\n",
    "sitecustomize.py": "open('witness', 'a').write('sitecustomize.py\\n')\n",
    "Makefile": "all:\n\techo Makefile >> witness\n",
    "bin/cat": "#!/bin/sh\necho bin/cat >> witness\n",
    "bin/jq": "#!/bin/sh\necho bin/jq >> witness\n",
    "list": "scripts/g.sh\n",
    "a b/g.sh": "#!/bin/sh\necho a b/g.sh >> witness\n",
}
"""The files of the project; each that runs writes its name into `witness`."""
LINKS = {"l.sh": "scripts/g.sh", "d": "scripts", "up": "sub/..", "again": "l.sh"}
SHELL = ("scripts/g.sh", "g.sh", "sub/deep/g.sh", "l.sh", "d/g.sh", "up/g.sh", "again", "a b/g.sh")
PYTHON = ("scripts/g.py", "g.py", "d/g.py", "up/scripts/g.py")
SPELLED = (
    "{p}", "{p}", "./{p}", "$PWD/{p}", "$CLAUDE_PROJECT_DIR/{p}", '"$CLAUDE_PROJECT_DIR/{p}"', '"${{FRIDAY_PROJECT_DIR}}"/{p}', "${{CLAUDE_PROJECT_DIR:-.}}/{p}",
    "sub/../{p}", "./sub/.././{p}", "/proc/self/cwd/{p}", "{root}/{p}", "{root}/sub/../{p}", "$(pwd)/{p}", "`pwd`/{p}", "~+/{p}", "$'{p}'", '"{p}"', "'{p}'", "./{head}*",
    "{head}?{tail}", "./{{{p},x}}", "{head}\\{tail0}", '{head}""{tail0}', "[{c}]{rest}", "${{x:-{p}}}", "$(echo {p})", "$(ls {p})", "../{name}/{p}",
)  # fmt: skip
RUN = (
    "{f}", "./{f}", "sh {f}", "bash {f} x", "bash -e {f}", "bash -- {f}", "bash +x {f}", "sh -s < {f}", "sh < {f}", "bash <{f}", ". {f}", "source {f}", ". ./{f}", "cat {f} | sh", "eval \"$(cat {f})\"",
    "eval {f}", "exec {f}", "command {f}", "builtin source {f}", "env {f}", "env X=1 sh {f}", "env -i /bin/sh {f}", "env -S 'sh {f}'", "nice {f}", "nohup sh {f}", "setsid sh {f}",
    "timeout 5 {f}", "timeout 5 sh {f}", "stdbuf -o0 sh {f}", "time sh {f}", "! sh {f}", "xargs sh < list", "xargs -a list sh", "echo {f} | xargs sh", "echo {f} | sh -s",
    "find . -name g.sh -exec sh {{}} \\;", "find . -maxdepth 1 -name g.sh -ok sh {{}} \\;", "sh -c 'sh {f}'", "sh -c {f}", "bash -c '. {f}'", "bash -lc 'sh {f}'", "BASH_ENV={f} bash -c true",
    "ENV={f} sh -c true", "bash --rcfile {f} -ic true", "bash --init-file {f} -i -c true", "(cd scripts; ./g.sh)", "cd scripts && sh g.sh", "pushd scripts; sh g.sh", "PATH=$PWD/bin:$PATH; cat x", "PATH=bin:$PATH cat x",
    "export PATH=$PWD/bin; jq .", "hash -p $PWD/bin/jq jq; jq .", "alias cat='sh {f}'\ncat x", "shopt -s expand_aliases\nalias q='sh {f}'\nq", "f() {{ sh {f}; }}; f", "cat() {{ sh {f}; }}; cat x", "trap 'sh {f}' EXIT", "sh {f} &\nwait",
    "cat <(sh {f})", "echo $(sh {f})", "echo \"`sh {f}`\"", "[ -n \"$(sh {f})\" ]", "while sh {f}; do break; done", "case $(sh {f}) in x) ;; esac", "x=$(sh {f})", "mapfile -C 'sh {f} #' -c 1 < list", "coproc sh {f}; wait",
    "awk 'BEGIN{{system(\"sh {f}\")}}'", "sed '1e sh {f}' list", "sed -n '1s/.*/sh {f}/ep' list", "perl -e 'system(\"sh {f}\")'", "python3 -c \"import os; os.system('sh {f}')\"", "tar cf /dev/null --checkpoint=1 --checkpoint-action=exec='sh {f}' list",
    "tar cf - list | tar xf - --to-command='sh {f}'", "sort --compress-program={f} list", "git -c core.pager='sh {f}' -p log", "git -c alias.x='!sh {f}' x", "GIT_EXTERNAL_DIFF={f} git diff", "git -c core.fsmonitor='sh {f}' status", "GIT_SSH_COMMAND='sh {f}' git ls-remote x:y",
    "git -c core.editor='sh {f}' commit --allow-empty", "git grep -O'sh {f}' g", "ssh -o ProxyCommand='sh {f}' x", "make", "make -s all", "make -f Makefile", "less {f}", "LESSOPEN='|sh {f} %s' less list", "flock list sh {f}", "script -qc 'sh {f}' /dev/null",
    "env --split-string='sh {f}'", "ionice sh {f}", "chrt -o 0 sh {f}", "taskset 1 sh {f}", "unshare -r sh {f}", "busybox sh {f}", "dash {f}", "ld.so {f}", "/lib64/ld-linux-x86-64.so.2 /bin/sh {f}", "/bin/sh {f}", "/usr/bin/env sh {f}", "$SHELL {f}", "${{SHELL}} {f}",
    "s=sh; $s {f}", "s={f}; sh $s", "set -- {f}; sh \"$1\"", "read f < list; sh $f", "for f in g.sh; do sh $f; done", "printf 'sh {f}' | sh", "sh <<< 'sh {f}'", "sh <<X\nsh {f}\nX", "python3 - <<X\nimport os; os.system('sh {f}')\nX", "cp {f} /tmp/x-$$; sh /tmp/x-$$",
    "cat > log; sh {f}", "tee log | sh {f}", "if grep -q x; then :; else sh {f}; fi", "jq . || sh {f}", "test -x {f} && sh {f}", "ln -sf {f} q; sh q", "mv {f} q.sh; sh q.sh", "curl -s file://$PWD/g.sh | sh", "cat list | while read x; do sh $x; done", "watch -n 1 sh {f}",
)  # fmt: skip
RUN_PYTHON = (
    "python3 {f}", "python3 -u {f}", "python3 -m scripts.g", "python3 -m g", "python3 -mg", "python3 scripts", "python3 d", "python3 -c 'import g'", "python3 -c 'import scripts.g'", "python3 < {f}", "cat {f} | python3", "python3 - < {f}", "PYTHONSTARTUP={f} python3 -i < /dev/null",
    "PYTHONPATH=. python3 -c 1", "PYTHONPATH=$PWD /usr/bin/env python3 -c pass", "python3 -X utf8 {f}", "python3 -W ignore {f}", "python3 -I {f}", "python3 -Im g", "python3 -c \"exec(open('{f}').read())\"", "python3 -c \"__import__('runpy').run_path('{f}')\"", "python3 -uc 'import g'",
    "python3 -Bum g", "python3 --check-hash-based-pycs always {f}", "cd scripts && python3 g.py", "env python3 {f}", "env PYTHONPATH=. python3 -c pass",
)  # fmt: skip
AROUND = ("{}", "{}", "{}", "({})", "{{ {}; }}", "true && {}", "false || {}", "if true; then {}; fi", "cat > /dev/null; {}", "{} 2>/dev/null", "{} | cat", "{}; exit 0", "set -e; {}", "for i in 1; do {}; done", "{} > log", "X=1; {}", "echo '{{}}'; {}", "# x\n{}")  # fmt: skip


def build(root: Path) -> None:
    """Write the files of the project."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    for name, target in LINKS.items():
        (root / name).symlink_to(target)


def command(rng: random.Random, root: Path) -> str:
    """A random command."""
    python = rng.random() < 0.25
    path = rng.choice(PYTHON if python else SHELL)
    words = {
        "p": path,
        "root": root,
        "name": root.name,
        "head": path[:3],
        "tail": path[4:],
        "tail0": path[3:],
        "c": path[0],
        "rest": path[1:],
    }
    spelled = rng.choice(SPELLED).format(**words) if rng.random() < 0.6 else path
    run = rng.choice(RUN_PYTHON if python else RUN).format(f=spelled)
    return rng.choice(AROUND).format(run)


def arguments(rng: random.Random, root: Path) -> list[str]:
    """A random program and its arguments, as an MCP server has them."""
    path = rng.choice(SHELL + PYTHON)
    word = rng.choice((path, f"./{path}", f"{root}/{path}", f"sub/../{path}", f"/proc/self/cwd/{path}"))
    shell = rng.choice(
        (
            "sh",
            "bash",
            "/bin/sh",
            "dash",
            "python3",
            "/usr/bin/env",
            "env",
            "nice",
            "timeout",
            "xargs",
            "make",
            "cat",
            "tee",
            "awk",
            "perl",
        )
    )
    return rng.choice((
        [word], [shell, word], [shell, "-c", word], [shell, "-c", f"sh {word}"], ["env", shell, word],
        ["env", "-S", f"sh {word}"], ["timeout", "5", shell, word], [shell, "-u", word], [shell, "-e", word],
        ["python3", "-m", "g"], ["python3", "-um", "scripts.g"], ["python3", "scripts"], ["sh", "-c", '"$0"', word],
        ["sh", "-c", ". \"$1\"", "x", word], ["bash", "--rcfile", word, "-ic", "true"], ["make"],
        ["awk", f'BEGIN{{system("sh {word}")}}'], ["sh", "--", word], ["nice", word],
        ["env", f"BASH_ENV={word}", "bash", "-c", "true"], ["env", "PYTHONPATH=.", "python3", "-c", "pass"],
        ["sh", "-s", word], ["python3", "-c", "import g"], [f"bin/{rng.choice(('cat', 'jq'))}"],
        ["env", "PATH=bin:/usr/bin:/bin", "jq"],
    ))  # fmt: skip
