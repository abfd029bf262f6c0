"""Projects whose texts name files that must not reach a model, put together at random: which file, why it must stay out, by which way
and in which words it is named."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

SECRETS = (".env", ".env.local", "prod.env", "server.pem", "tls/private.key", "id_ed25519", ".ssh/config", ".aws/credentials", "terraform.tfstate", "secrets.yaml", ".npmrc", ".netrc", "app/.envrc",
           "service-account-prod.json", "x.kdbx", ".docker/config.json", ".config/gh/hosts.yml", "credentials.json", "release.p12", ".git-credentials", "auth.toml")  # fmt: skip
PLAIN = (
    "notes.md",
    "docs/a.md",
    "docs/deep/er/b.md",
    "logs/build.txt",
    "dev/plan.md",
    "wörk/ümlaut.md",
    "data/x.local",
    "a/b/c/d.md",
    "tmp/Notes.MD",
)
FOLDERS = ("", "", "", "sub", "sub/deep", "packages/lib", "vendor/inner")
"""Where the text is that names a file; `vendor/inner` is a repository of its own."""


class Project:
    """A project below `top`, with a home beside it. `hidden` and `shown` are texts that must not, and may, reach a model."""

    def __init__(self, top: Path, rng: random.Random) -> None:
        self.rng, self.home, self.root = rng, top / "home", top / "project"
        self.linked = rng.random() < 0.15
        for folder in (self.home / "config", self.root, top / "outside", *(self.root / name for name in FOLDERS)):
            folder.mkdir(parents=True, exist_ok=True)
        self._repository(self.root, "worktree" if self.linked else "")
        self._repository(self.root / "vendor/inner", rng.choice(("", "submodule")))
        self.told: list[str] = []
        self.target = self._target()
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self.target.write_text(f"---\nname: go\ndescription: d\n---\n{self.canary}\n")

    canary = "CANARY-5fe1"

    def _repository(self, folder: Path, kind: str) -> None:
        if not kind:
            subprocess.run(["git", "init", "-q", str(folder)], check=True, capture_output=True)
            return
        admin = self.root.parent / f"admin-{kind}"
        subprocess.run(
            ["git", "init", "-q", f"--separate-git-dir={admin}", str(folder)], check=True, capture_output=True
        )

    def _target(self) -> Path:
        """The file, after what makes it one that must stay out was written."""
        rng, kind = self.rng, self.rng.random()
        folder = rng.choice(FOLDERS)
        if kind < 0.3:
            name = rng.choice(SECRETS)
            if rng.random() < 0.4:
                name = "".join(rng.choice((c, c.upper())) for c in name)
            return self.root / folder / name
        if kind < 0.45:
            return self.root.parent / rng.choice(("outside/o.md", "beside.md", "project-2/x.md", "home/mine.md"))
        if kind < 0.55:
            return (
                self.root / rng.choice((".git/notes.md", ".git/deep/x.md", "packages/lib/.git/y.md"))
                if not self.linked
                else self.root.parent / "outside/p.md"
            )
        target = self.root / folder / rng.choice(PLAIN)
        self._ignore(target)
        return target

    def _ignore(self, target: Path) -> None:
        """Write rules that may let git ignore `target`."""
        rng = self.rng
        for _ in range(rng.randint(1, 3)):
            where = rng.choice(
                (
                    ".gitignore",
                    ".gitignore",
                    "nested",
                    "nested",
                    "info/exclude",
                    "~/.config/git/ignore",
                    "~/.gitconfig",
                    "config",
                    "include",
                )
            )
            base = self.root
            if where == "nested":
                base = rng.choice([one for one in target.parents if one.is_relative_to(self.root)])
            inside = target.relative_to(base).as_posix()
            lines = [pattern(rng, inside) for _ in range(rng.randint(1, 3))]
            text = rng.choice(("\n", "\n", "\n", "\r\n")).join((*lines, ""))
            text = rng.choice(("", "", "", "\ufeff", "# rules\n\n")) + text
            self._put(where, base, text)
            self.told += [f"{where} of {base}: {text!r}"]

    def _put(self, where: str, base: Path, text: str) -> None:
        git = self.root.parent / "admin-worktree" if self.linked else self.root / ".git"
        if where in (".gitignore", "nested"):
            base.mkdir(parents=True, exist_ok=True)
            (base / ".gitignore").write_bytes(text.encode())
        elif where == "info/exclude":
            (git / "info").mkdir(exist_ok=True)
            (git / "info/exclude").write_bytes(text.encode())
        elif where == "~/.config/git/ignore":
            (self.home / ".config/git").mkdir(parents=True, exist_ok=True)
            (self.home / ".config/git/ignore").write_bytes(text.encode())
        else:
            (self.home / "ignored").write_bytes(text.encode())
            name = self.rng.choice(("excludesFile", "excludesfile", "EXCLUDESFILE"))
            line = f"[{self.rng.choice(('core', 'Core'))}]\n\t{name} = {self.rng.choice(('~/ignored', str(self.home / 'ignored'), chr(34) + str(self.home / 'ignored') + chr(34)))}\n"
            if where == "~/.gitconfig":
                (self.home / ".gitconfig").write_text(line)
            elif where == "include":
                (self.home / "more").write_text(line)
                (self.home / ".gitconfig").write_text("[include]\n\tpath = more\n")
            else:
                with (git / "config").open("a") as file:
                    file.write(line)

    def must_stay_out(self) -> bool:
        """Whether git, or the kind of the file, says that it is none for a prompt."""
        real = Path(os.path.realpath(self.target))
        if not real.is_relative_to(self.root) or ".git" in real.relative_to(self.root).parts:
            return True
        inside = real.relative_to(self.root).as_posix()
        if any(inside.lower() == one.lower() or inside.lower().endswith(f"/{one.lower()}") for one in SECRETS):
            return True
        env = {**os.environ, "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        env.pop("XDG_CONFIG_HOME", None)
        top = next(one for one in real.parents if os.path.lexists(one / ".git"))
        asked = [(top, real)] if top == self.root else [(top, real), (self.root, top)]
        return not inside.endswith(".local.md") and any(
            subprocess.run(
                ["git", "-C", at, "check-ignore", "-q", "--no-index", path], env=env, check=False, capture_output=True
            ).returncode
            == 0
            for at, path in asked
        )

    def named(self, where: Path) -> str:
        """`target` as a text in the folder `where` names it: relative, absolute, through links of files and folders."""
        rng, target = self.rng, self.target
        for number in range(rng.randint(0, 2)):
            link = where / rng.choice((f"l{number}.md", f"docs/l{number}.md", f"x/y/l{number}.md"))
            link.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(link):
                continue
            if rng.random() < 0.5:
                link.symlink_to(rng.choice((target, os.path.relpath(target, os.path.realpath(link.parent)))))
                target = link
            else:
                folder = link.with_suffix("")
                if not os.path.lexists(folder):
                    folder.symlink_to(
                        rng.choice((target.parent, os.path.relpath(target.parent, os.path.realpath(link.parent))))
                    )
                    target = folder / target.name
        text = os.path.relpath(target, where)
        form = rng.choice(
            (
                "{t}",
                "{t}",
                "{t}",
                "./{t}",
                "{d}/../{t}",
                ".//{t}",
                "././{t}",
                "{abs}",
                "~/{home}",
                "{proc}{abs}",
                "{t}/.",
                "{t}/../{n}",
            )
        )
        (where / "any").mkdir(exist_ok=True)
        return form.format(
            t=text,
            d="any",
            abs=target,
            home=os.path.relpath(target, self.home),
            proc=rng.choice(("/proc/self/root", "/proc/thread-self/root", "/dev/../")),
            n=target.name,
        )


def pattern(rng: random.Random, inside: str) -> str:
    """A rule that may match a path."""
    parts = inside.split("/")
    name, at = parts[-1], rng.randrange(len(parts))
    folder = "/".join(parts[: at + 1])
    form = rng.choice((
        "{name}", "/{path}", "{path}", "**/{name}", "{folder}", "{folder}/", "/{folder}", "{folder}/**", "{folder}/*",
        "*{end}", "{start}*", "{class}{rest}", "?{rest}", "{name}  ", "\\{name}", "!{name}", "!/{folder}/", "!{path}",
        "{part}/", "**/{part}/**", "*", "!*/", "{upper}", "{name}\t", "[!{other}]{rest}", "[{first}-{first}]{rest}",
        "{name}/", "# {name}", "{folder}/**/{name}", "/**/{name}", "**", "{brace}", "[[:alpha:]]{rest}", "{path}\\ ",
        "**{name}", "a/**/d.md", "*/",
    ))  # fmt: skip
    return form.format(
        name=name,
        path=inside,
        folder=folder,
        end=name[-3:],
        start=name[:2],
        rest=name[1:],
        part=parts[at],
        upper=name.upper(),
        other="q",
        first=name[0],
        brace="{" + name + ",x}",
        **{"class": f"[{name[0]}x]"},
    )


TEXTS = ("See @{n}", "See @{n}.", "(@{n})", "- @{n}, please", "| a | @{n} |", "<!-- @{n} -->", "**@{n}**", "@{n}", "\t@{n}", "> @{n}", "a@b @{n}", "@{n}@{n}", "x:@{n}", 'See @"{n}"', "See @'{n}'", "See @{n}:", "1. @{n}\n2. @{n}", "[x](@{n})", "@./{n}", "﻿@{n}")  # fmt: skip


def text(rng: random.Random, name: str) -> str:
    """A text that names a file."""
    return rng.choice(TEXTS).format(n=name)
