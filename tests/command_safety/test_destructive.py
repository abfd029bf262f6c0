"""Commands that destroy are asked about in every mode. Stricter is right, blind is wrong, and work is not hindered."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from friday_cli.command_safety import analyze, text_scan
from tests.command_safety import workspace_fixture

GROUND = workspace_fixture.virtual_context()


def danger(command: str) -> str:
    return next((step.danger for step in analyze(command, GROUND).steps if step.danger), "")


DESTROYS = [
    "rm -rf /", "rm -rf /*", "rm -fr ~", "rm -r -f ~/", "rm -Rf $HOME", 'rm -rf "$HOME"', "rm -rf ${HOME}", "rm --recursive --force /",
    "rm -rf .", "rm -rf ..", "rm -rf ./*", "rm -rf *", "rm -rf .git", "rm -rf ../other", "rm -rf /etc", "rm -rf -- /", "rm / -rf",
    "rm -rf $UNSET/bin", 'rm -rf "$DIR"/*', "rm -rf $(pwd)", "rm -rf `pwd`", "cd / && rm -rf *", "ls; rm -rf ~", "echo $(rm -rf /)", "echo `rm -rf /`",
    "sudo rm -rf /", "sudo -u root rm -rf /", "env -u X rm -rf /", "timeout -s KILL 9 rm -rf ~", "nice -n 5 rm -rf ~", "xargs rm -rf", "xargs -I {} rm -rf {}",
    "bash -c 'rm -rf /'", "sh -c \"cd /; rm -rf *\"", "bash -lc 'rm -rf ~'", "bash -x -c 'rm -rf ~'", "eval 'rm -rf /'", "eval rm -rf /",
    "if true; then rm -rf /; fi", "for d in x; do rm -rf ~; done", "while :; do rm -rf ~; done", "! rm -rf /", "{ rm -rf ~; }", "(rm -rf ~)", "f() { rm -rf ~; }",
    "true || rm -rf ~", "sleep 1 & rm -rf ~", "ls\nrm -rf ~", "'rm' -rf ~", "\\rm -rf ~", "/bin/rm -rf ~", "r\"m\" -rf ~", "X=1 rm -rf ~", "busybox rm -rf /",
    "find / -delete", "find . -delete", "find -delete", "find -name x -delete", "find ~ -exec rm -rf {} +", "find / -type f -exec rm {} ;",
    "git clean -fdx", "git clean -xdf", "git clean --force -d", "git -C sub clean -f",
    "mkfs.ext4 /dev/sda1", "dd if=x of=/dev/sda", "cat x > /dev/sda", "shutdown -h now", "sudo reboot", "wipefs -a /dev/sda", "parted /dev/sda rm 1", "chmod -R 777 /", "chmod --recursive 777 ~",
    "chown -R me /etc", ":(){ :|:& };:", "bash <<E\nrm -rf /\nE", "cat <<E | sh\nrm -rf /\nE", "f() { eval \"$1\"; }; f 'x; rm -rf /'",
    "x='a; rm -rf /'; python -c \"os.system('$x')\"", "d=/; rm -rf $d", "for d in build /; do rm -rf $d; done", "ssh host 'cd /; rm -rf *'",
    "rm -rf src/..", "rm -rf src/../..", "rm -rf ./src/../*", "rm -rf src/../.git", "rm -r a/b/../..", "find src/.. -delete", "chmod -R 777 src/../..",
    "mv ~ /dev/null", "mv ~/ x", "mv / x", "mv $HOME /tmp/x", "mv x.txt /dev/null", "mv .git old", "mv /home/me /tmp/x", "mv -t /tmp ~", "sudo mv ~ x", "mv /etc old",
    "f() { f|f& }; f", "f(){ f|f& };f", "bomb() { bomb | bomb & }; bomb", "function b { b & b; }; b", "f() { (f)& f; }; f", "f() { g & g; }; g() { f & f; }; f",
    "f() { while :; do f & done; }; f", "'f'() { f|f& }; f", "f() ( f | f & ); f", "f() { g; }; g() { f | f; }; f", "f() { f \"$@\" & f; }; f",
    "rm -rf .*", "rm -rf ./.*", "rm -rf **", "rm -rf ?*", "rm -rf .??*", "rm --recurs *", "git clean -d --forc", "git -c clean.requireForce=false clean -d", "rsync -a --delete x/ ~/", "rsync --del x/ .",
    "tee /dev/sda < x", "cp x /dev/nvme0n1", "shred /dev/sda", "mke2fs /dev/sda1", "blkdiscard /dev/sda", "sgdisk -Z /dev/sda", "chattr -R +i /", "setfacl -R -m u:x:rwx /",
    "systemctl reboot", "systemctl -q poweroff", "init 0", "kill -9 -1", "kill -KILL -- -1", "killall5 -9", "su -c 'rm -rf /'", "su me -c 'ls; rm -rf ~/x'", "toybox rm -rf ~", "trap 'rm -rf ~' EXIT",
    "alias x='rm -rf ~'; x", "git submodule foreach 'rm -rf ~'",
    "eval 'f() { f|f& }; f'", "bash -c 'f() { f|f& }; f'", "g() { ls; }; f() { g; }; g() { f; f & }; f",
]  # fmt: skip
WORKS = [
    "ls -la", "rm x.txt", "rm -f build.log", "rm -rf build", "rm -rf ./dist node_modules", "rm -r src/old", "git status", "git clean -n", "git commit -m 'clean up'",
    "git log --oneline", "npm run build", "pytest -q", "make clean", "find . -name '*.py'", "find src -name x -type f", "chmod +x run.sh", "chmod -R u+w build", "dd --version",
    "dd if=a of=b", "echo 'rm -rf /tmp is bad'", "grep -rf patterns.txt src", "cp -r a b", "mv a b", "cat /etc/hosts", "python -m pip install x", "cargo build", "sed -n 1,5p a", "tar -czf a.tgz src",
    "docker ps", "ls > out.txt", "sleep 5", "du -sh .", "diff a b", "touch a", "mkdir -p x/y", "head -3 a", "which rm", "man rm", "rmdir empty", "git rm -r old",
    "f() { ls | head; }; f | cat; f & wait", "walk() { for d in $1/*; do [ -d $d ] && walk $d; done; }; walk .", "f() { ls; }; g() { f | head; }; g & wait",
    "mv /tmp/x .", "mv src/* dist/", "mv ../x .", "mv ./* ../backup/", "mv /etc/nginx/x.conf .", "rm -rf build/../dist", "log() { echo \"$1\" >&2; }; log x | tee y",
    "kill -1 123", "kill -9 123", "systemctl status x", "rsync -a x/ y/", "rsync --delete x/ build/", "cp x /dev/null", "rm -rf build/*", "rm -rf *.pyc", "rm -f .gitkeep", "echo hi <<< '*'", "init 6x",
    "fact() { [ $1 -le 1 ] && echo 1 || fact $(($1-1)); }; fact 3",
]  # fmt: skip


def test_what_could_destroy_is_seen_whether_it_parses_or_not() -> None:
    assert [text for command in DESTROYS for text in (command, f"{command}\n(") if not danger(text)] == []


@pytest.mark.parametrize(
    "command",
    [
        "sh <<< 'rm -rf ~'",
        "ssh h rm -rf ~",
        "npm exec -- rm -rf ~",
        "echo x >> ~/.bashrc",
        "cat k > /home/me/.ssh/authorized_keys",
    ],
)
def test_what_the_parts_of_a_command_would_destroy_or_let_run_later_is_seen(command: str) -> None:
    assert danger(command)


def test_everyday_work_is_not_taken_for_destruction() -> None:
    assert [text for command in WORKS for text in (command, f"{command}\n(") if danger(text)] == []


@given(st.text(st.sampled_from("rm -rf/~$'\"`;&|(){}\\ \x1f\n=c!"), max_size=30))
@settings(max_examples=500)
def test_no_text_breaks_the_reader(command: str) -> None:
    assert isinstance(danger(command), str)
    assert all(isinstance(found, str) for found in text_scan.scan(command).commands)


@pytest.mark.parametrize(
    "command", ["echo 'first; rm -rf / then'", "git commit -m 'drop x; rm -rf / is gone'", "ls # ; rm -rf /"]
)
def test_text_that_nothing_runs_is_no_command(command: str) -> None:
    assert not danger(command)


@pytest.mark.parametrize("command", ["env sh -c " * 200 + "rm x", "sudo " + "b " * 199 + "a" * 20_000])
def test_a_text_with_too_much_in_it_is_asked_about_at_once(command: str) -> None:
    assert danger(command).startswith("it is too long to be checked")
