"""Classifies git commands. Unknown and abbreviated options, and options that name programs or files, need approval."""

from __future__ import annotations

import re
from collections.abc import Sequence

from friday_cli.core.permissions.dangerous import is_secret
from friday_cli.core.text.lazy_regex import pattern

from .context import AnalysisContext
from .directory_scan import FolderSearch
from .options import ProgramArguments, ProgramSpec, ProgramWord, read

_SHOWING = (
    "oneline graph decorate no-decorate all branches tags remotes stat shortstat numstat dirstat summary name-only name-status"
    " patch no-patch raw minimal patience histogram color no-color word-diff color-words no-renames find-renames find-copies"
    " find-copies-harder check full-index binary abbrev no-abbrev abbrev-commit no-abbrev-commit cached staged merge-base"
    " ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines ignore-cr-at-eol function-context text"
    " exit-code quiet relative no-relative reverse merges no-merges first-parent follow full-history dense sparse simplify-merges"
    " ancestry-path topo-order date-order author-date-order no-walk not left-right cherry-pick cherry-mark cherry boundary"
    " walk-reflogs pickaxe-all pickaxe-regex regexp-ignore-case extended-regexp fixed-strings perl-regexp all-match invert-grep"
    " parents children left-only right-only source clear-decorations show-pulls no-ext-diff no-textconv no-prefix submodule"
    " ignore-submodules compact-summary no-color-moved color-moved use-mailmap no-mailmap mailmap cc dd combined-all-paths"
    " show-linear-break log-size no-notes notes root always patch-with-stat unified"
)
_SHOWING_VALUES = (
    "format pretty date since until after before author committer grep max-count skip diff-filter diff-algorithm inter-hunk-context"
    " decorate-refs decorate-refs-exclude word-diff-regex src-prefix dst-prefix encoding stat-width glob exclude line-prefix"
    " min-parents max-parents anchored stat-count stat-name-width"
)
_SHOW = ProgramSpec(
    flags="pusabwWDRrtczigEFPqv" + "0123456789", values="nUMCBSGLl", long=_SHOWING, long_values=_SHOWING_VALUES
)
_SHOW_ONLY = {
    "log": _SHOW, "show": _SHOW, "diff": _SHOW, "whatchanged": _SHOW, "reflog": _SHOW,
    "range-diff": _SHOW, "diff-tree": _SHOW,
    "diff-index": _SHOW, "diff-files": _SHOW,
    "rev-list": ProgramSpec(flags=_SHOW.flags, values=_SHOW.values, long_values=_SHOWING_VALUES,
                            long=_SHOWING + " count objects disk-usage timestamp"),
    "shortlog": ProgramSpec(flags="snec", long="summary numbered email committer " + _SHOWING,
                            long_values="group " + _SHOWING_VALUES),
    "status": ProgramSpec(flags="sbvz", values="u", long="short branch porcelain long verbose untracked-files ignored ignore-submodules"
                   " column no-column ahead-behind no-ahead-behind renames no-renames show-stash find-renames null"),
    "blame": ProgramSpec(flags="bltfsewnpcMC", values="L", long="porcelain line-porcelain root show-stats show-name show-number show-email"
                  " incremental color-lines color-by-age", long_values="date since ignore-rev abbrev"),
    "rev-parse": ProgramSpec(flags="q", long="abbrev-ref show-toplevel verify short git-dir is-inside-work-tree is-inside-git-dir symbolic"
                      " symbolic-full-name show-prefix show-cdup absolute-git-dir git-common-dir is-bare-repository all branches"
                      " tags remotes quiet is-shallow-repository show-superproject-working-tree"),
    "ls-files": ProgramSpec(flags="cdmoiskutvzf", values="x", long="cached deleted modified others ignored stage killed unmerged"
                     " full-name error-unmatch exclude-standard directory no-empty-directory deduplicate eol debug",
                     long_values="exclude abbrev"),
    "ls-tree": ProgramSpec(flags="drtlz", long="name-only name-status long full-name full-tree object-only",
                           long_values="abbrev format"),
    "cat-file": ProgramSpec(flags="ptse", most=2), "describe": ProgramSpec(long="tags all always long dirty contains abbrev exact-match first-parent"
                     " broken", long_values="match exclude candidates"),
    "merge-base": ProgramSpec(flags="a", long="all octopus independent is-ancestor fork-point"),
    "name-rev": ProgramSpec(long="name-only tags all always", long_values="refs"),
    "count-objects": ProgramSpec(flags="vH", long="verbose"),
    "show-ref": ProgramSpec(flags="dshq", long="heads tags branches head hash verify quiet dereference abbrev"),
    "for-each-ref": ProgramSpec(long="ignore-case", long_values="format sort count points-at merged no-merged contains no-contains exclude"),
    "check-ignore": ProgramSpec(flags="vnq", long="verbose non-matching no-index quiet"),
    "check-attr": ProgramSpec(flags="a", long="all cached"),
    "grep": ProgramSpec(flags="niIwvhHEGPFlLcpWaoqz" + "0123456789", values="eABCm", lead=1, instead="-e", long="cached untracked"
                 " no-exclude-standard exclude-standard line-number ignore-case word-regexp invert-match extended-regexp"
                 " basic-regexp perl-regexp fixed-strings files-with-matches name-only files-without-match count show-function"
                 " function-context heading break column color no-color all-match and or not quiet text only-matching full-name",
                 long_values="max-depth threads max-count context after-context before-context"),
    "cherry": ProgramSpec(flags="v"),
    "symbolic-ref": ProgramSpec(flags="q", long="short quiet", most=1),
    "var": ProgramSpec(most=0), "version": ProgramSpec(most=0, long="build-options"),
}  # fmt: skip
_SHOWING_SUBCOMMANDS = {
    ("bisect", "log"): ProgramSpec(most=0), ("stash", "list"): _SHOW, ("stash", "show"): _SHOW,
    ("worktree", "list"): ProgramSpec(flags="vz", long="porcelain verbose", most=0),
    ("notes", "list"): ProgramSpec(most=1), ("notes", "show"): ProgramSpec(most=1),
    ("remote", "get-url"): ProgramSpec(long="all push", most=1),
}  # fmt: skip
_FILTERS = "merged no-merged contains no-contains points-at"
_LIST = f"list all remotes show-current verbose no-column column ignore-case color no-color {_FILTERS}"
_LIST_VALUES = "sort format abbrev"
_PLAIN_GLOBALS = frozenset(("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"))
_GLOBAL_VALUES = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source", "--super-prefix")
)
_SECRET_KEYS = pattern(r"header|token|pass|secret|credential|insteadof|proxy|cookie|auth(?!or)|\.pat$|(?<!signing)key")


_HARMLESS_SETTINGS = pattern(
    r"(?:user\.(?:name|email)|(?:color|advice)\.\S+|init\.defaultbranch|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote)|"
    r"core\.(?:autocrlf|eol|filemode|quotepath|ignorecase|longpaths)|(?:commit|tag)\.gpgsign|merge\.(?:ff|conflictstyle)|"
    r"rebase\.(?:autostash|autosquash)|fetch\.prune|rerere\.enabled|log\.date|diff\.renames|branch\.\S+\.(?:merge|remote|rebase))",
    re.I,
)
"""Settings that neither name a program, a file or a server nor grant a right."""
_CONFIG_VALUES = frozenset(("--type", "--default", "--value", "--comment", "--url", "--blob"))


def changed_settings(words: Sequence[str]) -> str:
    """The file that `git config` with these words changes, "" if it changes none or only a harmless setting. A word that
    is not known is ""."""
    file, place, changes, operands = "", ".git/config", False, list[str]()
    rest = iter(words)
    for word in rest:
        option, _, value = word.partition("=")
        if option in ("-f", "--file"):
            file = value or next(rest, "")
        elif option in _CONFIG_VALUES:
            value = value or next(rest, "")
        elif re.match(r"--(?:get|list|name-only)|-l$", word):
            return ""
        elif word in ("--global", "--system"):
            place = "~/.gitconfig"
        elif not word.startswith("-"):
            operands.append(word)
        changes = changes or re.match(r"-e$|--(?:edit|add|replace|unset|rename|remove)", word) is not None
    if operands[:1] in (["get"], ["list"], ["get-color"], ["get-colorbool"]):
        return ""
    if operands and operands[0] in ("set", "unset", "edit", "rename-section", "remove-section"):
        changes, operands = True, operands[1:]
    if not changes and len(operands) < 2:
        return ""
    return file or ("" if operands and _HARMLESS_SETTINGS().fullmatch(operands[0]) else place)


def resolve_global_options(
    args: Sequence[ProgramWord], context: AnalysisContext, directory: str
) -> tuple[list[ProgramWord], str]:
    """The arguments without harmless global options, and the folder of `-C` ("" if it is outside the workspace)."""
    rest = list(args)
    while directory and rest and rest[0].known:
        if rest[0].text in _PLAIN_GLOBALS:
            rest.pop(0)
        elif rest[0].text == "-C" and len(rest) > 1 and rest[1].known and not rest[1].glob and rest[1].text:
            directory = context.cd_target(rest[1].text, directory)
            rest = rest[2:]
        else:
            break
    return rest, directory


def without_global_options(words: Sequence[str]) -> list[str]:
    """The words of a git command without its global options."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _GLOBAL_VALUES else 1
    return [words[0], *words[at:]]


def approval_reason(args: Sequence[ProgramWord], context: AnalysisContext, directory: str) -> str:
    """Why `git args` needs approval, or "" if it is read-only."""
    rest, directory = resolve_global_options(args, context, directory)
    if not directory:
        return "git -C names a folder outside the workspace"
    if not rest:
        return ""
    if not rest[0].known or rest[0].glob:
        return "which git command it runs is not known before it runs"
    name, rest = rest[0].text, rest[1:]
    if name in ("--version", "--exec-path", "--html-path") and not rest:
        return ""
    if name.startswith("-"):
        return f"git {name} changes what git reads or runs"
    reason = _command(name, rest)
    if isinstance(reason, ProgramArguments):
        reason = _operands_reason(name, reason, context, directory)
    if not reason and name in ("remote", "config"):
        reason = context.password_reason(directory, rewritten=name == "remote")
    return reason or context.git_reason(directory)


def _command(name: str, args: list[ProgramWord]) -> ProgramArguments | str:
    if name == "reflog" and args and args[0].text in ("expire", "delete", "drop", "write"):
        return f"git reflog {args[0].text} changes the repository"
    if (spec := _SHOW_ONLY.get(name)) is not None:
        return read(args, spec)
    if name in ("branch", "tag"):
        return _listing(name, args)
    first = args[0].text if args and args[0].known else ""
    if name == "remote" and first != "get-url":
        listing = not args or (len(args) == 1 and first in ("-v", "--verbose", "show"))
        return "" if listing else f"git remote {first} is not known to be read-only"
    if (spec := _SHOWING_SUBCOMMANDS.get((name, first))) is not None:
        return read(args[1:], spec)
    return _config(args) if name == "config" else f"git {name} is not known to be read-only"


def _listing(name: str, args: list[ProgramWord]) -> ProgramArguments | str:
    """`git branch` and `git tag` create what they name, unless an option makes them list."""
    flags, values = ("arvlqi", "") if name == "branch" else ("li", "n")
    parsed = read(args, ProgramSpec(flags=flags, values=values, long=_LIST, long_values=_LIST_VALUES))
    if isinstance(parsed, str):
        return parsed
    if parsed.operands and not parsed.has("-l", "--list", *(f"--{name}" for name in _FILTERS.split())):
        return f"git {name} with a name creates one"
    return parsed


def _config(args: list[ProgramWord]) -> ProgramArguments | str:
    known = "get get-all local global show-origin show-scope"
    parsed = read(args, ProgramSpec(long=known, long_values="default type", most=2, text=True))
    if isinstance(parsed, str):
        return parsed
    words = [arg.text for arg in parsed.operands]
    asked = parsed.has("--get", "--get-all") or (len(words) == 1 and "." in words[0])
    keys = words[1:] if words[:1] == ["get"] else words if asked else []
    if len(keys) != 1 or _SECRET_KEYS().search(keys[0].lower()):
        return "git config does more than read one setting"
    return parsed


def _operands_reason(name: str, parsed: ProgramArguments, context: AnalysisContext, directory: str) -> str:
    """Check revisions and paths: with a path outside the workspace git compares files outside the repository."""
    for option, word in parsed.options:
        if option.startswith("--output") or option in ("--ext-diff", "--textconv"):
            return f"{option} runs a program or writes a file"
        if option == "--submodule" and word is not None and word.text == "diff":
            return "git diff in submodules reads their settings"
        if option in ("--format", "--pretty") and word is not None and re.search(r"%G|%\(signature", word.text):
            return f"{option} with a signature runs gpg"
        if option == "-L" and word is not None and is_secret(word.text.rpartition(":")[2]):
            return f"{word.text} may hold secrets"
    if name == "grep" and parsed.has("--untracked", "--no-exclude-standard"):
        under = context.searched_labels(parsed.paths, directory)
        if reason := context.scan(directory, FolderSearch(tuple(under), vendored=False)).approval_reason(
            (), links=False
        ):
            return reason
    if name == "grep" and not parsed.has("--cached"):  # git reads tracked names below a link to a folder
        found = context.scan(directory, FolderSearch(lenient=True))
        if reason := found.approval_reason((), links=False, secrets=False, follows=True):
            return reason
    names = [arg.text for arg in parsed.operands]
    if name == "diff" and len(names) == 2 and context.are_files_outside_git(names, directory):
        return "git diff outside a repository compares any files"
    for arg in parsed.operands:
        text = arg.text
        if any(map(is_secret, (text, text.partition(":")[2], text.rpartition(":")[2]))):
            return f"{text} may hold secrets"
        if text.startswith(("/", "~", "../")) or text == ".." or "/../" in text or text.endswith("/.."):
            outside = True
        else:
            outside = arg.glob and not text.startswith((":", "HEAD"))
        if outside and (reason := context.path_reason(text, directory, glob=arg.glob)):
            return reason
    return ""
