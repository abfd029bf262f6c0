"""Which commands are a literal argument vector: what they run is in their text alone."""

from __future__ import annotations

from friday_cli.command_safety import is_literal_command

LITERAL = (
    "ls", "ls -la src", "cat 'my dir/x'", "git status && git log --oneline -5", "ls | head -5", "cd src; ls", 'grep -rn "a b" src 2>/dev/null',
    "echo hi 2>&1", "sed -n 1,50p x.py", "sed -n '1,50p' x", "timeout 5 git status", "! grep -q x y", "cat $HOME/x", 'cat "$PWD/x"',
    "find . -name '*.py'", "cat my\\ dir/x", "rg -g '*.py' foo", "git log --format='%h %s'", "ls # c", "ls\npwd", "diff -u a b || true",
    "git show HEAD~1:x", "ls ~/x", "git show stash@{1}", "wc -l x >/dev/null", "ls > x", "ls 2>> a/x", "env LC_ALL=C sort x", "rm x", "fd -e py",
)  # fmt: skip
DEPENDS = (
    "", "   ", "# c", "ls &", "ls & wait", "ls *", "ls a?b", "ls a[b]", "ls {a,b}", "ls {1..3}", "x=1", "x=1 ls", "PATH=. ls", "HOME=/; cat $HOME/x",
    "ls $x", 'ls "$x"', "ls ${HOME%x}", "ls $(pwd)", "ls `pwd`", 'ls "`id`"', "ls $((1))", "ls <(ls)", "ls $'a'", 'ls $"a"', '"$x"', "$HOME/x",
    "f(){ ls; }; f", "for a in b; do ls; done", "while ls; do ls; done", "if ls; then ls; fi", "case a in a) ls;; esac", "(ls)", "{ ls; }", "[ -f x ]",
    "[[ -f x ]]", "((1))", "cat <<E\nE", "cat <<< x", "cat < x", "ls > $x", "ls >> x*", "ls 2>&x", "ls|&cat", "ls;;ls", "ls (",
    "bash -c ls", "sh x", "awk '{print}' x", "gawk 1", "sed s/a/b/ x", "sed -n '1,5w x' y", "sed -n 1p -i x", "sed -n 1p -s -f x", "jq . x", "bc",
    "python3 -c 1", "perl -e 1", "xargs ls", "find . -exec ls {} +", "find . -execdir ls ;", "find . -ok ls ;", "fd -x ls", "fd -HX ls", "fd --exec ls",
    "timeout 5 sh -c ls", "env -S 'rm x'", "nice xargs ls", "/usr/bin/env awk 1", "command eval ls", "read x", "eval ls", "exec ls", "source x", ". x",
    "alias ls=rm", "trap ls EXIT", "coproc ls", "export x", "set -- a", "a=(1)", "echo \ud800", "ls\u00a0x", "(" * 3000 + "ls", "ls " + "a" * 7000,
)  # fmt: skip


def test_a_command_with_literal_words_is_literal() -> None:
    assert [command for command in LITERAL if not is_literal_command(command)] == []


def test_a_command_that_depends_on_anything_else_is_not() -> None:
    assert [command for command in DEPENDS if is_literal_command(command)] == []
