from __future__ import annotations

import os
from pathlib import Path

import pytest

from friday_cli.config.settings import SandboxSettings
from friday_cli.core.protocol.errors import UsageError
from friday_cli.system.paths import writable_below
from friday_cli.workspace.sandbox import bubblewrap, denial_detection, landlock, protected_paths, seatbelt
from friday_cli.workspace.sandbox.detect import SandboxChoice
from friday_cli.workspace.sandbox.plan import SandboxPlan
from friday_cli.workspace.sandbox.policy import SandboxPolicy

PLAN = SandboxPlan(
    "bubblewrap", "/bin/bwrap", "/tmp/t", "/ws", False, ("/ws", "/odd\nname\udcff"), ("/ws/s",), (), ("/ws/.friday",)
)


def test_a_plan_is_encoded_and_decoded() -> None:
    for plan in (PLAN, PLAN._replace(network=True, write=(), show=("/a", ""))):
        fields = iter([*plan.fields(), b"next"])
        assert SandboxPlan.read(fields) == plan
        assert next(fields) == b"next"
    assert SandboxPlan.read(iter([b"0"])) is None


def test_links_are_resolved_and_missing_paths_omitted(tmp_path: Path) -> None:
    top = Path(os.path.realpath(tmp_path))
    (top / "real").mkdir()
    (top / "link").symlink_to("real")
    (top / "dangling").symlink_to("gone")
    (top / "around").symlink_to("around")
    (top / "file").touch(0)
    paths = (
        str(top / "link"),
        *(str(top / name) for name in ("missing", "dangling", "around/x", "around/../real/..", "file/x")),
    )
    plan = PLAN._replace(
        write=paths, deny=paths, show=paths, freeze=(str(top / "link/x"), str(top / "no/x"))
    ).resolved()
    assert plan.deny == plan.show == (str(top / "real"),)
    assert plan.write == (), "a command may have made the link"
    assert PLAN._replace(write=(str(top / "real"),)).resolved().write == (str(top / "real"),)
    assert plan.freeze == (str(top / "real/x"),)


def test_the_deeper_path_applies(tmp_path: Path) -> None:
    top = Path(os.path.realpath(tmp_path))
    for name in ("ws/secret/own", "other"):
        (top / name).mkdir(parents=True)
    ws = str(top / "ws")
    plan = PLAN._replace(
        write=(ws, f"{ws}/secret/own"),
        deny=(f"{ws}/secret", f"{top}/other"),
        freeze=(f"{ws}/.friday", f"{top}/other/x"),
    )
    words = [os.fsdecode(word) for word in bubblewrap.wrap(plan, [b"true"])]
    at = {path: words.index(path) for path in (ws, f"{ws}/secret", f"{ws}/secret/own", f"{ws}/.friday")}
    assert at[ws] < at[f"{ws}/.friday"]
    assert at[ws] < at[f"{ws}/secret"] < at[f"{ws}/secret/own"]
    assert words[at[f"{ws}/secret"] - 3 : at[f"{ws}/secret"]] == ["--perms", "0111", "--tmpfs"]
    assert f"{top}/other/x" not in words
    assert words[-2:] == ["--", "true"]


def test_a_folder_is_shown_at_another_place_above_what_is_there() -> None:
    words = [*map(os.fsdecode, bubblewrap.wrap(PLAN._replace(elsewhere=("/main/modules", "/ws/modules")), [b"true"]))]
    at = words.index("/main/modules")
    assert words[at - 1 : at + 2] == ["--ro-bind", "/main/modules", "/ws/modules"]
    assert at > words.index("/ws")


def test_landlock_grants_reading_of_the_siblings_of_secrets(tmp_path: Path) -> None:
    top = Path(os.path.realpath(tmp_path))
    (top / "a/secret").mkdir(parents=True)
    (top / "a/plain").write_text("")
    (top / "b").mkdir()
    found = landlock.readable(PLAN._replace(write=(), deny=(str(top / "a/secret"),)))
    assert {str(top / "b"), str(top / "a/plain")} <= set(found)
    assert not any(str(top / "a/secret").startswith(path + "/") or path == str(top / "a/secret") for path in found)
    assert not any(path == "/dev" or path.startswith("/dev/") for path in found)


def test_a_seatbelt_profile_quotes_names_and_denies_the_network() -> None:
    text = seatbelt.profile(PLAN._replace(write=('/ws "x"\\',), deny=("/ws/s",)))
    assert '(allow file-read* file-write* (subpath "/ws \\"x\\"\\\\"))' in text
    assert text.index("(deny file-write*)") < text.index('(deny file-read* file-write* (subpath "/ws/s"))')
    assert text.endswith("(deny network*)")
    assert "network" not in seatbelt.profile(PLAN._replace(network=True))


def test_secret_paths_come_from_variables_and_settings() -> None:
    environ = {
        "HOME": "/home/u",
        "SSH_AUTH_SOCK": "/x/agent",
        "DOCKER_HOST": "unix:///x/docker.sock",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x/bus,guid=1",
        "DISPLAY": ":0",
        "OTHER": "/x/other",
    }
    found = protected_paths.secret_paths(environ, ("~/mine",), ("/data",))
    assert {"/home/u/.ssh", "/home/u/mine", "/data", "/x/agent", "/x/docker.sock", "/x/bus"} <= set(found)
    assert not {"/x/other", ":0"} & set(found)
    with pytest.raises(UsageError, match="'relative' is not an absolute path"):
        protected_paths.absolute_paths(environ, ("relative",))
    with pytest.raises(UsageError, match="NUL character"):
        protected_paths.absolute_paths(environ, ("/tmp/a\0b",))


@pytest.mark.parametrize(
    ("output", "word"),
    [
        ("touch: cannot touch '/etc/x': Read-only file system", "can be written"),
        ("mkdir: cannot create directory '/opt/x': Permission denied", "can be written"),
        ("error: could not write config file .git/config: Device or resource busy", "can be written"),
        ("cat: /ws/s/key: Permission denied", "secrets"),
        ("curl: (6) Could not resolve host: example.org", "network"),
        ("E: Temporary failure in name resolution", "network"),
        ("dial tcp: lookup proxy.golang.org: no such host", "network"),
        ("connect to 10.0.0.1: Network is unreachable", "network"),
        ("bwrap: Can't mkdir /x: Read-only file system", "did not run"),
        ("bash: ./run.sh: Permission denied", ""),
        ("cat: /ws/file: Permission denied", ""),
        ("AssertionError: 1 != 2", ""),
        ("", ""),
    ],
)
def test_a_failure_by_the_sandbox_is_recognised(output: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SandboxPlan, "resolved", lambda self: self)  # its folders do not exist
    found = denial_detection.explain(output, PLAN)
    assert (word in found) if word else (found == "")
    assert "network" not in denial_detection.explain(output, PLAN._replace(network=True)) or word != "network"


def test_what_became_a_link_after_the_start_cannot_be_written(tmp_path: Path) -> None:
    top = Path(os.path.realpath(tmp_path))
    for name in ("ws/out", "outside", "kept"):
        (top / name).mkdir(parents=True)
    (top / "named").symlink_to("kept")
    settings = SandboxSettings(write=(str(top / "ws/out"), str(top / "named"), str(top / "later")))
    policy = SandboxPolicy(SandboxChoice("landlock", read_only_kind="landlock"), settings, environ=os.environ)
    (top / "ws/out").rmdir()
    (top / "ws/out").symlink_to(top / "outside")
    (top / "later").mkdir()
    plan = policy.plan([top / "ws", top / "ws/out"], top / "ws", show=None, access="")
    assert plan is not None
    assert plan.resolved().write == (str(top / "ws"), str(top / "kept"), str(top / "later"))
    policy.close()


def test_a_folder_that_a_program_may_write_and_that_becomes_a_link_is_left_out(tmp_path: Path) -> None:
    """A command that runs at the same time may put the link there after `writable_below` looked."""
    root = Path(os.path.realpath(tmp_path))
    (root / "home").mkdir()
    (root / "reports").mkdir()
    (written,) = writable_below(root, ["reports"])
    (root / "reports").rmdir()
    (root / "reports").symlink_to(root / "home")
    plan = SandboxPlan("landlock", "", str(root), str(root), False).writing_only([str(written)])
    assert plan.resolved().write == ()
