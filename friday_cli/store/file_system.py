"""What kind of file system a folder is on."""

from __future__ import annotations

from pathlib import Path


def is_network(kind: str) -> bool:
    """Whether a file system of this kind can be shared between machines. Then write-ahead logging is not safe."""
    return kind in {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "ceph", "glusterfs", "lustre", "fuse.sshfs"}


def file_system(folder: Path) -> str:
    """The kind of file system of `folder` (which need not exist), such as "ext4"; "" if unknown."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    target, best, kind = str(folder.resolve()), "", ""
    for line in lines:
        fields, _, rest = line.partition(" - ")
        mount = fields.split()[4].replace("\\040", " ")
        if len(mount) >= len(best) and (target + "/").startswith(mount.rstrip("/") + "/"):
            best, kind = mount, rest.split(" ", 1)[0]
    return kind
