"""What is asked about in every mode: commands that destroy, files that grant or hold secrets.

A crude reader of shell text on purpose: it can only make things stricter. A command counts as plain when it has no
character by which a shell could do more than run one program with words.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from ..text.lazy_regex import pattern

_SPLIT = pattern(r"[;&|\n\r()`{}]|\$\(|<\(|>\(")
_ASSIGNMENT = pattern(r"[A-Za-z_]\w*=")
WRAPPERS = frozenset(
    [
        "env",
        "sudo",
        "doas",
        "timeout",
        "nice",
        "nohup",
        "time",
        "setsid",
        "xargs",
        "watch",
        "stdbuf",
        "command",
        "exec",
        "busybox",
        "builtin",
        "ionice",
        "chroot",
    ]
)
"""Programs that run the command in their arguments."""
_READINGS = 200
"""Words after a wrapper from which on a command may begin: its options are too many to know."""
_KEYWORDS = frozenset(["then", "do", "else", "elif", "if", "while", "until", "!"])
_SHELLS = frozenset(["sh", "bash", "zsh", "dash", "ksh"])
_SYSTEM = pattern(
    r"(?:/|/\*|~|~/|~/\*|\*|\.|\./|\.\.|\.\./.*|\./\*|/(?:bin|boot|dev|etc|home|lib\w*|opt|proc|root|sbin|srv|sys|usr|var|tmp|Users|System|Library)(?:/\*?|/[^/]+/?)?|(?:\./)?\.git(?:/.*)?)",
    re.S,
)
_PROTECTED = pattern(
    # folders of git, Friday and other agents, editors, hooks, CI, keys
    r"(?:.*/)?(?:\.git|\.friday|\.claude|\.codex|\.cursor|\.gemini|\.vscode|\.vs|\.idea|\.zed|\.fleet|\.devcontainer|\.husky|\.githooks|"
    r"\.lefthook|\.ssh|\.gnupg|\.github/(?:workflows|actions)|\.circleci|\.buildkite|\.woodpecker|\.gitea/workflows|\.forgejo/workflows)(?:/.*)?"
    # Friday's own, and what a desktop starts, below a home
    r"|(?:.*/)?\.(?:config|local/share|local/state|cache)/friday(?:/.*)?|(?:.*/)?\.config/(?:fish|systemd|autostart|git|nvim)(?:/.*)?"
    # files
    r"|(?:.*/)?(?:\.gitmodules|\.gitconfig|\.mcp\.json|\.envrc|\.bashrc|\.bash_(?:profile|login|logout|aliases)|\.profile|\.zsh(?:rc|env)|"
    r"\.z(?:profile|login|logout)|\.kshrc|\.cshrc|\.tcshrc|\.inputrc|\.exrc|\.n?vimrc|\.nvim\.lua|\.dir-locals\.el|\.pam_environment|"
    r"\.gitlab-ci\.yml|\.travis\.yml|\.drone\.yml|\.woodpecker\.ya?ml|jenkinsfile|azure-pipelines\.ya?ml|bitbucket-pipelines\.yml|"
    r"appveyor\.yml|\.pre-commit-config\.ya?ml|lefthook(?:-local)?\.ya?ml|\.devcontainer\.json|.*\.code-workspace)",
    re.S,  # a folder's name may hold a line end
)
_PASSWORD = pattern(r"(://[^/\s@:]*:)[^/\s@]+(?=@)|(://)[^/\s@:]{20,}(?=@)|(extraheader\s*=).*", re.I)
_GIT_SETTINGS = pattern(r"(?:.*/)?\.git/(?:.*/)?config(?:\.worktree)?", re.S)
_SECRET = pattern(
    # of paths that stand between NULs, in lower case; one class of characters in front lets the search skip the others
    r"[/\0.](?:(?<=[/\0])(?:"
    # a file's name
    r"(?:\.(?:env(?:\.(?!(?:example|sample|template|dist)\0)[^\0]*)?|envrc|netrc|pgpass|npmrc|yarnrc\.yml|pypirc|my\.cnf|s3cfg|boto|"
    r"htpasswd|git-credentials|dockercfg|vault-token|[a-z]+_history)|_netrc|kubeconfig|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|"
    r"credentials(?:\.json|\.toml|\.tfrc\.json)?|auth\.toml|"
    r"(?:service[-_]account|application_default_credentials|client_secret)[^/\0]*\.json|secrets?\.(?:ya?ml|json|toml|env|ini))(?=\0)"
    # a folder it is in
    r"|\.(?:ssh|aws|azure|gnupg|kube|docker|password-store|config/(?:gcloud|gh|hub|op)|gem/credentials)(?=[/\0])"
    r"|(?<=\0/)proc/[^/\0]+/(?:task/[^/\0]+/)?(?:environ|mem)(?=\0))"
    # the end of its name
    r"|(?<=\.)(?:(?<=[^/\0.]\.)env|pem|key|p12|pfx|jks|keystore|kdbx?|ppk|tfstate(?:\.backup)?|tfvars)(?=\0))"
)


def simple_commands(command: str) -> list[str]:
    """The commands inside a compound one, wrappers and assignments taken off; quotes are removed as a shell would."""
    found: list[str] = []
    if "\\\n" in command:  # the line may go on in the next, or not
        found += simple_commands(command.replace("\\\n", ""))
        command = command.replace("\\\n", "\n")
    for piece in _SPLIT().split(command):
        try:
            whole = shlex.split(piece)
        except ValueError:
            whole = piece.replace('"', "").replace("'", "").split()
        for words in _readings(whole):
            found.append(" ".join(words))
            if words[0] in _SHELLS:
                found += simple_commands(_script(words))
            elif words[0] == "eval":
                found += simple_commands(" ".join(words[1:]))
    return found


def _readings(words: list[str]) -> list[list[str]]:
    """What a command may run: itself, or behind a wrapper what begins at any later word."""
    while words and (_ASSIGNMENT().match(words[0]) or words[0] in _KEYWORDS):
        words = words[1:]
    if not words:
        return []
    first = _named(words)
    if first[0] not in WRAPPERS:
        return [first]
    starts = [i for i, word in enumerate(words[1:], 1) if not word.startswith("-")]
    return [_named(words[i:]) for i in starts[:_READINGS]]


def _named(words: list[str]) -> list[str]:
    return [words[0].rsplit("/", 1)[-1] or words[0], *words[1:]]


def _script(words: list[str]) -> str:
    """What a shell is given to run with -c; what follows it counts, too."""
    for i, word in enumerate(words[1:], 1):
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word):
            return " ".join(words[i + 1 :])
    return ""


def _subcommand(words: list[str]) -> str:
    """The first operand of a git command, its global options left out."""
    rest = iter(words[1:])
    for word in rest:
        if word in ("-C", "-c", "--git-dir", "--work-tree", "--namespace"):
            next(rest, "")
        elif not word.startswith("-"):
            return word
    return ""


def catastrophe(command: str) -> str:
    """Why a command could destroy more than the work at hand, "" when nothing says so."""
    for simple in simple_commands(command):
        words = simple.split()
        if not words:
            continue
        name, flags = words[0], [w for w in words[1:] if w.startswith("-")]
        operands = [w for w in words[1:] if not w.startswith("-")]
        short = "".join(f[1:] for f in flags if not f.startswith("--"))
        if name == "rm" and ("r" in short.lower() or "--recursive" in flags):
            if bad := next(
                (o for o in operands if "$" in o or o.startswith(("/", "~")) or _SYSTEM().fullmatch(o)), None
            ):
                return f"recursive delete of {bad}"
            if not operands:
                return "recursive delete of something unseen"
        if name == "find" and ("-delete" in words or "rm" in words):
            top = words[1] if not words[1].startswith("-") else "."
            if _SYSTEM().fullmatch(top) or top.startswith(("/", "~", "$")):
                return f"recursive delete below {top}"
        if name == "git" and _subcommand(words) == "clean" and ("f" in short or "--force" in flags):
            return "git clean deletes files that git does not know"
        if name.startswith("mkfs") or name in ("shutdown", "reboot", "halt", "poweroff", "wipefs", "fdisk", "parted"):
            return f"{name} acts on the whole machine"
        if name == "dd" and any(o.startswith("of=/dev/") for o in operands):
            return "dd writes to a device"
        recursive = "R" in short or "--recursive" in flags
        if name in ("chmod", "chown") and recursive and any(_SYSTEM().fullmatch(o) for o in operands):
            return f"recursive {name} of a system folder"
    if re.search(r">\s*/dev/(?:sd|nvme|hd|vd|disk)", command):
        return "writes to a disk device"
    if re.search(r":\s*\(\s*\)\s*\{.*\|.*&", command):
        return "a fork bomb"
    return ""


def is_protected(path: str) -> bool:
    """Whether a change of `path` could run code or grant rights later (git's and editors' folders, hooks, Friday's own)."""
    return _PROTECTED().fullmatch(path.lower()) is not None


def masked(path: str, text: str) -> str:
    """`text` of the file `path` without the passwords that git keeps in addresses and headers of its settings."""
    if not _GIT_SETTINGS().fullmatch(path):
        return text
    return _PASSWORD().sub(lambda found: f"{found[1] or found[2] or found[3]}[masked]", text)


def is_secret(path: str) -> bool:
    """Whether `path` looks like a place for keys and passwords; `.env.example` and the like do not."""
    return bool(secrets((path,)))


def secrets(paths: Sequence[str]) -> set[str]:
    """Those of `paths` that look so: a hundred thousand are looked through at once, one by one they take a while."""
    text = "\0".join(("", *paths, "")).lower()
    found, number, seen = set(), -1, 0
    for hit in _SECRET().finditer(text):
        number += text.count("\0", seen, hit.start() + 1)
        seen = hit.start() + 1
        found.add(paths[number])
    return found
