"""Receipts of a session that others can check: an in-toto statement in a DSSE envelope, signed with a person's SSH key.

Formats: in-toto Attestation Framework, Statement v1; DSSE v1.0 (secure-systems-lab/dsse), whose signed bytes are `pae`. The signature is
that of `ssh-keygen -Y sign` in the namespace `friday-receipt`, so that `ssh-keygen -Y verify` checks it without Friday.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from friday_cli import __version__
from friday_cli.core.protocol import events
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.events import Envelope, encode
from friday_cli.core.text.sanitize import clean
from friday_cli.system.git_command import git
from friday_cli.system.own_programs import find_program
from friday_cli.system.safe_files import read
from friday_cli.view import SessionView

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:friday-cli:receipt:v1"
PAYLOAD = "application/vnd.in-toto+json"
NAMESPACE, NOTES = "friday-receipt", "friday"
"""The namespace of the signature, and the name of the git notes."""
TREE = "git tree"
"""The name of the subject that is a tree of git; the others are files by their path in it."""
LARGEST = 32 * 1024 * 1024
"""Bytes of a receipt that is read."""
LARGEST_FILE = 512 * 1024 * 1024
"""Bytes of a file that are compared."""


class Signature(msgspec.Struct, frozen=True):
    """One signature: the armored text of `ssh-keygen`, in base64."""

    sig: str
    keyid: str = ""


class SignedEnvelope(msgspec.Struct, frozen=True, rename="camel"):
    """A DSSE envelope. `payload` is the statement in base64."""

    payload_type: str
    payload: str
    signatures: tuple[Signature, ...] = ()

    @property
    def content(self) -> bytes:
        """The statement as it was signed. Raises FridayError if it is not base64."""
        try:
            return base64.b64decode(self.payload, validate=True)
        except binascii.Error:
            raise FridayError("The receipt is damaged: its payload is not base64.") from None

    @property
    def pae(self) -> bytes:
        """The bytes that are signed."""
        kind, content = self.payload_type.encode(), self.content
        return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(content), content)


class Subject(msgspec.Struct, frozen=True):
    """A file, or the tree, with its digests by algorithm."""

    name: str
    digest: dict[str, str]


class Statement(msgspec.Struct, frozen=True, rename={"type": "_type", "predicate_type": "predicateType"}):
    """What is said, and of what."""

    type: str
    subject: tuple[Subject, ...]
    predicate_type: str
    predicate: dict[str, Any]

    @property
    def tree(self) -> str:
        """The id of the git tree, "" for none."""
        return next((s.digest.get("gitTree", "") for s in self.subject if s.name == TREE), "")

    @property
    def about(self) -> SessionPart:
        """What is said of the session."""
        return msgspec.convert(self.predicate, SessionPart)

    @property
    def files(self) -> dict[str, str]:
        """The sha256 of each file by its path."""
        return {s.name: s.digest.get("sha256", "") for s in self.subject if s.name != TREE}


class RanCommand(msgspec.Struct, frozen=True, rename="camel"):
    """A command that an agent ran."""

    command: str = ""
    exit_code: int | None = None


class AgentPart(msgspec.Struct, frozen=True, rename="camel"):
    """What is said of one agent, as far as it is shown."""

    path: str = ""
    model: str = ""
    commands: tuple[RanCommand, ...] = ()
    warnings: tuple[str, ...] = ()


class SessionPart(msgspec.Struct, frozen=True, rename="camel"):
    """What is said of the session, as far as it is shown."""

    session: str = ""
    cost_usd: float | None = None
    agents: tuple[AgentPart, ...] = ()
    changed_since: tuple[str, ...] = ()


def read_receipt(data: bytes) -> tuple[SignedEnvelope, Statement]:
    """A receipt from a file or a note. Raises FridayError for one that is none."""
    if len(data) > LARGEST:
        raise FridayError(f"This is not a receipt of Friday: it is larger than {LARGEST:,} bytes.")
    try:
        envelope = msgspec.json.decode(data, type=SignedEnvelope)
        statement = msgspec.json.decode(envelope.content, type=Statement)
        msgspec.convert(statement.predicate, SessionPart)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FridayError(f"This is not a receipt of Friday: {error}.") from None
    if (envelope.payload_type, statement.type, statement.predicate_type) != (PAYLOAD, STATEMENT, PREDICATE):
        raise FridayError(f"This is not a receipt of Friday: it is {statement.predicate_type[:80]!r}.")
    return envelope, statement


# ---- making -----------------------------------------------------------------------------------------------------


def make_statement(session: str, envelopes: Sequence[Envelope], commit: str) -> Statement:
    """The statement about a session. `commit` (a full id in the repository of the session's folder, "" for none) is what it left: the
    files that the agents wrote are subjects where the commit, or the folder, still has them as the agents left them."""
    state = SessionView.of(envelopes)
    folder = Path(state.cwd)
    prefix = git(folder, "rev-parse", "--show-prefix").decode().strip() if commit else ""
    subjects, changed = [], []
    for path, sha256 in _left_files(state, envelopes).items():
        if sha256 and content_hash(folder, prefix + path, path, commit) == sha256:
            subjects.append(Subject(prefix + path, {"sha256": sha256}))
        else:
            changed.append(path)
    if commit:
        tree = git(folder, "rev-parse", f"{commit}^{{tree}}").decode().strip()
        subjects.insert(0, Subject(TREE, {"gitTree": tree}))
    predicate = {
        "session": session,
        "friday": __version__,
        "commit": commit,
        "agents": [_agent(state, path) for path in state.agents if state.agents[path].run],
        "changedSince": changed,
        "costUsd": state.totals.cost_usd,
        "tokens": state.totals.billed,
        "eventsSha256": _digest(envelopes),
        "prefixesSha256": {
            e.agent: hashlib.sha256(e.event.system.encode("utf-8", "replace")).hexdigest()
            for e in envelopes
            if isinstance(e.event, events.Prefix)
        },
    }
    return Statement(STATEMENT, tuple(subjects), PREDICATE, clean(msgspec.to_builtins(predicate)))


def _left_files(state: SessionView, envelopes: Sequence[Envelope]) -> dict[str, str]:
    """The sha256 of the files that agents wrote into the folder itself, as the last of them left it; "" for a removed one."""
    found: dict[str, str] = {}
    for envelope in envelopes:
        if isinstance(envelope.event, events.ToolFinished) and state.agents[envelope.agent].worktree is None:
            for change in envelope.event.facts.files:
                if not Path(change.path).is_absolute() and ".." not in Path(change.path).parts:
                    found[change.path] = change.sha256
    return found


def _agent(state: SessionView, path: str) -> dict[str, Any]:
    agent = state.agents[path]
    receipt = agent.receipt
    return {
        "path": path,
        "profile": agent.profile,
        "model": agent.model,
        "status": agent.status,
        "tools": receipt.tools,
        "denied": receipt.denied,
        "files": [{"path": change.path, "sha256": change.sha256, "seen": change.seen} for change in receipt.files],
        "commands": [{"command": run.command, "exitCode": run.exit_code} for run in receipt.commands],
        "warnings": receipt.warnings,
        "costUsd": agent.usage.cost_usd,
    }


def _digest(envelopes: Sequence[Envelope]) -> str:
    digest = hashlib.sha256()
    for envelope in envelopes:
        digest.update(encode(envelope) + b"\n")
    return digest.hexdigest()


def content_hash(folder: Path, name: str, path: str, commit: str) -> str:
    """The sha256 of a file: of `name` in a commit, else of `path` in the folder; "" if there is none. Names of others' receipts lead to
    no link, no device and not outside."""
    if Path(path).is_absolute() or ".." in Path(path).parts:
        return ""
    try:
        root = folder.resolve()
        data = blob(folder, f"{commit}:{name}", LARGEST_FILE) if commit else read(root, root / path, LARGEST_FILE)
    except (FridayError, OSError, ValueError):
        return ""
    return hashlib.sha256(data).hexdigest()


def noted(folder: Path) -> dict[str, str]:
    """The notes with receipts of a repository: the id of each one's blob by its commit. Raises FridayError."""
    rows = git(folder, "notes", f"--ref={NOTES}", "list").decode().splitlines()
    return {commit: note for note, commit in map(str.split, rows)}


def blob(folder: Path, name: str, most: int) -> bytes:
    """The content of a blob of git. Raises FridayError if there is none, or if it has more than `most` bytes."""
    if int(git(folder, "cat-file", "-s", name)) > most:
        raise FridayError(f"{name} is larger than {most:,} bytes.")
    return git(folder, "cat-file", "blob", name)


def seal(statement: Statement, key: str) -> SignedEnvelope:
    """The envelope of a statement, signed with the SSH key in the file `key` unless that is "". Raises FridayError."""
    payload = base64.b64encode(msgspec.json.encode(statement)).decode()
    envelope = SignedEnvelope(PAYLOAD, payload)
    if not key:
        return envelope
    made = _ssh_keygen("-Y", "sign", "-f", key, "-n", NAMESPACE, data=envelope.pae)
    if made.returncode or not made.stdout.startswith(b"-----BEGIN SSH SIGNATURE"):
        raise FridayError(f"{key} cannot sign: {made.stderr.decode(errors='replace').strip()[:300]}")
    signature = Signature(base64.b64encode(made.stdout).decode())
    return msgspec.structs.replace(envelope, signatures=(signature,))


# ---- checking ---------------------------------------------------------------------------------------------------


def signer(envelope: SignedEnvelope, allowed: Path) -> str:
    """Who signed, as the file of allowed signers names them. Raises FridayError if nobody in it did, or for a changed receipt."""
    if not envelope.signatures:
        raise FridayError("The receipt is not signed.", hint="`friday sessions receipt ID --sign` signs one.")
    if not allowed.is_file():
        raise UsageError(
            f"{allowed} is not a file.", hint="It has a line for each person: NAME KEYTYPE KEY (man ssh-keygen)."
        )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "signature")
        try:
            file.write_bytes(base64.b64decode(envelope.signatures[0].sig, validate=True))
        except binascii.Error:
            raise FridayError("The signature is damaged: it is not base64.") from None
        found = _ssh_keygen("-Y", "find-principals", "-s", str(file), "-f", str(allowed), "-n", NAMESPACE)
        names = found.stdout.decode(errors="replace").splitlines()
        if found.returncode or not names:
            raise FridayError(f"The receipt is signed with a key that is not in {allowed}.")
        words = ("-Y", "verify", "-f", str(allowed), "-I", names[0], "-n", NAMESPACE, "-s", str(file))
        if _ssh_keygen(*words, data=envelope.pae).returncode:
            raise FridayError("The signature does not match: the receipt was changed after it was signed.")
    return names[0]


def _ssh_keygen(*words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = find_program("ssh-keygen", None)
    if program is None:
        raise FridayError("ssh-keygen was not found.", hint="It is part of OpenSSH.")
    return subprocess.run([program, *words], input=data, capture_output=True, check=False)
