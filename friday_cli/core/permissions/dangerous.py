"""Files with secrets, which need permission in every mode."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..text.lazy_regex import pattern

_PASSWORD = pattern(r"(://[^/\s@:]*:)[^/\s@]+(?=@)|(://)[^/\s@:]{20,}(?=@)|(extraheader\s*=).*", re.I)
_GIT_SETTINGS = pattern(r"(?:.*/)?\.git/(?:.*/)?config(?:\.worktree)?", re.S)
_COPY = r"(?=(?:[~#\s]|\.(?:bak|backup|copy|old|orig|save|sw[a-p]|tmp|\d{1,3}))*\0)"
"""The end of a name, perhaps of a copy that an editor or a person made."""
_SECRET = pattern(
    # for lower-case paths separated by NULs; the character class at the start makes the search fast
    r"[/\0.](?:(?<=[/\0])(?:"
    # a file's name, also one with a line end
    r"[.#]{0,2}(?:\.(?:env(?:\.(?!(?:example|sample|template|dist)[~\s]*\0)[^\0]*)?|envrc|netrc|pgpass|npmrc|yarnrc\.yml|pypirc|my\.cnf|s3cfg|boto|"
    r"htpasswd|git-credentials|dockercfg|vault-token|[a-z]+_history)|_netrc|kubeconfig|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|"
    r"credentials(?:\.json|\.toml|\.tfrc\.json)?|auth\.toml|"
    r"(?:service[-_]account|application_default_credentials|client_secret)[^/\0]*\.json|secrets?\.(?:ya?ml|json|toml|env|ini))"
    + _COPY
    # a folder it is in
    + r"|\.(?:ssh|aws|azure|gnupg|kube|docker|password-store|config/(?:gcloud|gh|hub|op)|gem/credentials)(?=[/\0])"
    r"|\.env(?=/(?!(?:bin|lib(?:64)?|include|share|scripts)/|pyvenv\.cfg\0))"  # others are of an environment with packages
    r"|mcp-logins(?=/)"
    r"|(?<=\0/)proc/[^/\0]+/(?:task/[^/\0]+/)?(?:environ|mem)(?=\0))"
    # the end of its name
    r"|(?<=\.)(?:(?<=[^/\0.]\.)env|pem|key|p12|pfx|jks|keystore|kdbx?|ppk|tfstate(?:\.backup)?|tfvars)" + _COPY + ")"
)


def masked(path: str, text: str) -> str:
    """`text` of the file `path`. Passwords in URLs and headers of git settings are masked."""
    if not _GIT_SETTINGS().fullmatch(path):
        return text
    return _PASSWORD().sub(lambda found: f"{found[1] or found[2] or found[3]}[masked]", text)


def is_secret(path: str) -> bool:
    """Whether `path` looks like a file with keys or passwords. Examples such as `.env.example` do not."""
    return bool(secrets((path,)))


def secrets(paths: Sequence[str]) -> set[str]:
    """Those of `paths` that look like files with secrets. One search for all: fast for 100,000 paths."""
    text = "\0".join(("", *paths, "")).lower()
    found, number, seen = set(), -1, 0
    for hit in _SECRET().finditer(text):
        number += text.count("\0", seen, hit.start() + 1)
        seen = hit.start() + 1
        found.add(paths[number])
    return found
