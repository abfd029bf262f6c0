"""The language servers that are used where they are installed. Of those for the same files the first one that answers is used. None
is downloaded: `install` is text for a person."""

from __future__ import annotations

from .entry import LanguageServerEntry as Entry

_PYTHON = {".py": "python", ".pyi": "python"}
_PYTHON_ROOT = ("pyproject.toml", "setup.py", "setup.cfg", "pyrightconfig.json", "ty.toml")
_SCRIPT = {
    ".ts": "typescript", ".tsx": "typescriptreact", ".mts": "typescript", ".cts": "typescript",
    ".js": "javascript", ".jsx": "javascriptreact", ".mjs": "javascript", ".cjs": "javascript",
}  # fmt: skip
_SCRIPT_ROOT = ("tsconfig.json", "jsconfig.json", "package.json")
_C = {
    ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hh": "cpp", ".hpp": "cpp", ".m": "objective-c",
}  # fmt: skip

KNOWN: tuple[Entry, ...] = (
    Entry("ty", "ty", _PYTHON, ("server",), root_markers=_PYTHON_ROOT, install="uv tool install ty",
          trusted_program=True),
    Entry("basedpyright", "basedpyright-langserver", _PYTHON, ("--stdio",), root_markers=_PYTHON_ROOT,
          settings={"basedpyright": {"analysis": {"diagnosticMode": "openFilesOnly"}}}, install="uv tool install basedpyright"),
    Entry("pyright", "pyright-langserver", _PYTHON, ("--stdio",), root_markers=_PYTHON_ROOT, install="npm install -g pyright"),
    Entry("ruff", "ruff", _PYTHON, ("server",), root_markers=_PYTHON_ROOT, install="uv tool install ruff",
          trusted_program=True, lints=True, only_with=("ruff.toml", ".ruff.toml"), section="[tool.ruff"),
    Entry("tsc", "tsc", _SCRIPT, ("--lsp", "--stdio"), root_markers=_SCRIPT_ROOT, install="npm install -D typescript@7",
          least_major=7),
    Entry("typescript-language-server", "typescript-language-server", _SCRIPT, ("--stdio",), root_markers=_SCRIPT_ROOT,
          install="npm install -D typescript@5 typescript-language-server"),
    Entry("gopls", "gopls", {".go": "go"}, root_markers=("go.work", "go.mod"),
          install="go install golang.org/x/tools/gopls@latest"),
    Entry("rust-analyzer", "rust-analyzer", {".rs": "rust"}, root_markers=("Cargo.toml",),
          install="rustup component add rust-analyzer"),
    Entry("clangd", "clangd", _C, ("--use-dirty-headers",), root_markers=("compile_commands.json", "compile_flags.txt", ".clangd"),
          options={"clangdFileStatus": True}, install="the package clangd of your system", trusted_program=True),
    Entry("zls", "zls", {".zig": "zig"}, root_markers=("build.zig",), install="see the pages of zls"),
    Entry("lua-language-server", "lua-language-server", {".lua": "lua"}, root_markers=(".luarc.json",),
          install="the package lua-language-server of your system"),
    Entry("bash-language-server", "bash-language-server", {".sh": "shellscript", ".bash": "shellscript"}, ("start",),
          install="npm install -g bash-language-server"),
    Entry("csharp-ls", "csharp-ls", {".cs": "csharp"}, install="dotnet tool install -g csharp-ls"),
    Entry("jdtls", "jdtls", {".java": "java"}, root_markers=("pom.xml", "build.gradle"), install="the package jdtls of your system"),
    Entry("ruby-lsp", "ruby-lsp", {".rb": "ruby"}, root_markers=("Gemfile",), install="gem install ruby-lsp"),
    Entry("intelephense", "intelephense", {".php": "php"}, ("--stdio",), root_markers=("composer.json",),
          install="npm install -g intelephense"),
    Entry("ocamllsp", "ocamllsp", {".ml": "ocaml", ".mli": "ocaml"}, root_markers=("dune-project",),
          install="opam install ocaml-lsp-server"),
    Entry("haskell-language-server", "haskell-language-server-wrapper", {".hs": "haskell"}, ("--lsp",),
          root_markers=("cabal.project", "stack.yaml"), install="ghcup install hls"),
    Entry("gleam", "gleam", {".gleam": "gleam"}, ("lsp",), root_markers=("gleam.toml",), install="the package gleam of your system"),
    Entry("dart", "dart", {".dart": "dart"}, ("language-server",), root_markers=("pubspec.yaml",), install="the Dart SDK"),
    Entry("sourcekit-lsp", "sourcekit-lsp", {".swift": "swift"}, root_markers=("Package.swift",), install="the Swift toolchain"),
)  # fmt: skip
