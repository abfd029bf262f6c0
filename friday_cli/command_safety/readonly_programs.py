"""The table of read-only programs and their allowed options. Everything that is not in it needs approval."""

from __future__ import annotations

import re

from .options import ProgramSpec


def word_set(text: str) -> frozenset[str]:
    """The words of `text`, separated by blanks."""
    return frozenset(text.split())


_NUMBERS = "0123456789"
_GREP = ProgramSpec(
    flags="EFGPHhnivwxcloqsrabLZIyTzU" + _NUMBERS,
    values="emABCdD",
    files="f",
    instead="-e -f --regexp --file",
    lead=1,
    long="extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp"
    " line-regexp count color colour files-without-match files-with-matches only-matching quiet silent no-messages"
    " byte-offset with-filename no-filename line-number initial-tab null recursive text line-buffered null-data",
    long_values="regexp max-count label after-context before-context context binary-files devices directories include"
    " exclude exclude-dir",
    long_files="file exclude-from",
)
_READ_OPERANDS = {
    "tac": "s", "nl": "bdfhilnsvw", "fold": "w", "join": "aejotv12", "cmp": "in", "column": "csoNHRTWEldCO", "fmt": "wgp",
    "expand": "t", "unexpand": "t", "strings": "nteT", "od": "AjNStw", "shasum": "a",
}  # fmt: skip
"""Programs that only read the files in their operands, whatever their options, with the short options that have a value."""
_NO_OPERANDS = {
    "pwd": "LP", "uptime": "ps", "free": "bkmghtw", "tty": "s", "hostname": "sfidIA", "locale": "a", "umask": "S",
    "ulimit": "SHacdefilmnpqrstuvx", "jobs": "lp", "who": "abdHlmpqrstTu", "w": "hsfi", "lsblk": "afiltSmnpd",
    "ss": "tulnpaxs46eomi", "netstat": "tulnpaxsr46ei",
} | dict.fromkeys(word_set("whoami users arch lscpu sw_vers logname"), "")  # fmt: skip
"""Programs that are read-only without operands, with their flags."""
SPECS: dict[str, ProgramSpec] = {
    **{name: ProgramSpec(free=True, values=values) for name, values in _READ_OPERANDS.items()},
    **{name: ProgramSpec(flags=flags, most=0) for name, flags in _NO_OPERANDS.items()},
    **dict.fromkeys(
        word_set(
            "cat rev realpath readlink cksum sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum md5"
        ),
        ProgramSpec(free=True),
    ),
    **dict.fromkeys(word_set("dirname echo true false : printf"), ProgramSpec(free=True, text=True, data=True)),
    **dict.fromkeys(word_set("break continue shift expr factor groups whereis getconf"), ProgramSpec(text=True)),
    **dict.fromkeys(("exit", "return"), ProgramSpec(text=True, data=True)),
    **dict.fromkeys(("tr", "id"), ProgramSpec(free=True, text=True)),
    **dict.fromkeys(("zcat", "gzcat"), ProgramSpec(flags="f")),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _GREP),
    "more": ProgramSpec(),
    "less": ProgramSpec(flags="NSRFXEr"),
    "man": ProgramSpec(text=True, most=2),
    "zipinfo": ProgramSpec(flags="12smlvhtzT", most=1),
    "unzip": ProgramSpec(flags="lvZ1", most=1),
    "wait": ProgramSpec(text=True, most=0),
    "sleep": ProgramSpec(text=True, most=1),
    "help": ProgramSpec(flags="ds", text=True),
    "cal": ProgramSpec(flags="13mjy", text=True),
    "which": ProgramSpec(flags="as", text=True),
    "type": ProgramSpec(flags="afptP", text=True),
    "seq": ProgramSpec(flags="w", values="fs", text=True),
    "basename": ProgramSpec(free=True, text=True, values="s", data=True),
    "uname": ProgramSpec(flags="asnrmpiov", most=0, long="all"),
    "nproc": ProgramSpec(long="all", most=0),
    "ps": ProgramSpec(flags="AefFljHww", values="ouUpCtg", text=True),
    "bc": ProgramSpec(flags="lqsw", long="mathlib quiet standard warn"),
    "hexdump": ProgramSpec(flags="bcCdovx", values="nse"),
    "xxd": ProgramSpec(flags="abeEuiCp", values="clgsn", most=1),
    "head": ProgramSpec(free=True, values="cn", long_values="lines bytes"),
    "wc": ProgramSpec(free=True, long_values="total"),
    "stat": ProgramSpec(free=True, values="c", long_values="format printf cached"),
    "comm": ProgramSpec(free=True, long_values="output-delimiter"),
    "paste": ProgramSpec(free=True, values="d", long_values="delimiters"),
    "base64": ProgramSpec(flags="dDi", values="w", long="decode ignore-garbage", long_values="wrap"),
    "shuf": ProgramSpec(flags="ez", values="ni", long_values="head-count input-range"),
    "tokei": ProgramSpec(flags="fC", values="s", long="files compact", long_values="sort exclude type"),
    "ls": ProgramSpec(
        free=True,
        values="ITw",
        long_values="color sort time time-style format ignore hide block-size width"
        " indicator-style quoting-style tabsize hyperlink",
    ),
    "tail": ProgramSpec(free=True, values="cns", long_values="lines bytes sleep-interval pid max-unchanged-stats"),
    "du": ProgramSpec(
        free=True, values="dBt", files="X", long_values="max-depth block-size exclude threshold time-style"
    ),
    "df": ProgramSpec(free=True, values="Btx", long_values="block-size type exclude-type output"),
    "file": ProgramSpec(flags="bihLkrNpv0", values="F", long="brief mime mime-type mime-encoding dereference version"),
    "cut": ProgramSpec(free=True, values="bcdf", long_values="bytes characters delimiter fields output-delimiter"),
    "diff": ProgramSpec(
        flags="qsyrNiEZbwBatTpcued" + _NUMBERS,
        values="UCWIx",
        files="X",
        long="brief report-identical-files side-by-side recursive new-file ignore-case ignore-all-space"
        " ignore-space-change ignore-blank-lines unified context text minimal color expand-tabs suppress-common-lines"
        " no-dereference strip-trailing-cr ed normal left-column show-c-function",
        long_values="width label exclude ignore-matching-lines",
    ),
    "sort": ProgramSpec(
        flags="bdfghiMnrRsuVzcCm",
        values="ktS",
        lead=0,
        long="ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort"
        " human-numeric-sort numeric-sort random-sort reverse stable unique version-sort check merge debug"
        " zero-terminated",
        long_values="key field-separator sort buffer-size parallel",
    ),
    "uniq": ProgramSpec(
        flags="cdDiuz" + _NUMBERS,
        values="fsw",
        most=1,
        long="count repeated all-repeated ignore-case unique group",
        long_values="skip-fields skip-chars check-chars",
    ),
    "date": ProgramSpec(
        flags="uRI",
        values="d",
        files="r",
        text=True,
        most=1,
        long="utc universal iso-8601 rfc-email rfc-3339",
        long_values="date",
        long_files="reference",
    ),
    "tree": ProgramSpec(
        flags="adfihsDCnJXpugtrSNqFA",
        values="LPI",
        long="dirsfirst noreport prune gitignore du si inodes device",
        long_values="filelimit",
    ),
    "rg": ProgramSpec(
        flags="ncilwvoSshHNUFxpuPaI0q." + _NUMBERS,
        values="AeBCgtTmMrjdE",
        files="f",
        lead=1,
        instead="-e -f --regexp --file --files --type-list",
        long="files files-with-matches files-without-match line-number no-line-number ignore-case smart-case case-sensitive"
        " word-regexp line-regexp invert-match only-matching count count-matches hidden no-ignore no-ignore-vcs heading"
        " no-heading fixed-strings multiline multiline-dotall json column stats quiet no-messages trim null type-list text"
        " with-filename no-filename unrestricted pcre2 no-config pretty vimgrep passthru crlf max-columns-preview",
        long_values="glob iglob type type-not context after-context before-context max-count max-depth regexp replace sort sortr"
        " color colors max-columns max-filesize threads encoding engine context-separator",
        long_files="file",
    ),
    "fd": ProgramSpec(
        flags="HIuasigFpl0" + _NUMBERS,
        values="tedEScjn",
        lead=1,
        long="hidden no-ignore unrestricted absolute-path case-sensitive ignore-case glob fixed-strings full-path print0"
        " list-details",
        long_values="type extension max-depth min-depth exact-depth exclude size color max-results",
    ),
    "jq": ProgramSpec(
        flags="nrjacCMSsRe",
        lead=1,
        long="null-input raw-output join-output ascii-output"
        " compact-output color-output monochrome-output sort-keys slurp raw-input exit-status tab",
        long_values="indent",
    ),
}
SPECS["fdfind"] = SPECS["fd"]

QUIET = frozenset(SPECS) | word_set("ag sed awk find test cd")
"""Programs that contact no host, even if their arguments contain addresses."""
GIT_QUIET = word_set("add commit tag log show diff status grep blame branch checkout switch merge rebase stash")
SHELLS = word_set("sh bash zsh dash ksh")
BUILTINS = word_set(
    "echo printf test [ true false : pwd cd exit return break continue shift wait type command read set time kill"
    " help umask ulimit jobs"
)
"""Shell builtins: not looked up in PATH."""

VERSIONED = word_set(
    "python python3 node npm npx pnpm yarn bun deno go cargo rustc rustup ruby gem bundle perl php java javac kotlin"
    " scala gcc g++ clang cc make cmake ninja git docker podman kubectl helm terraform pip pip3 pipx uv uvx poetry"
    " hatch ruff mypy pytest tox black bash zsh fish tsc eslint prettier jest dotnet swift ghc stack cabal mix elixir"
    " lua R julia psql sqlite3 mysql gh aws gcloud az rg fd jq curl wget ssh tmux vim nvim emacs code friday"
)
"""Programs for which `--version` is read-only."""
SHORT_VERSIONS = frozenset(
    (
        ("python", "-V"), ("python3", "-V"), ("node", "-v"), ("npm", "-v"), ("pnpm", "-v"), ("yarn", "-v"), ("php", "-v"),
        ("java", "-version"), ("javac", "-version"), ("go", "version"), ("git", "version"), ("cargo", "version"), ("ruby", "-v"),
    )
)  # fmt: skip
"""Other version options. Not `python -v` and `bash -v`: those read a program from standard input."""

ENVIRONMENT = word_set(
    "CI NO_COLOR FORCE_COLOR CLICOLOR LANG LC_ALL LC_CTYPE LC_COLLATE LC_TIME TZ TERM COLUMNS LINES DEBUG VERBOSE"
    " NODE_ENV RUST_BACKTRACE RUST_LOG PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED LOG_LEVEL"
)
"""Variables that change the output of a program, not what it runs."""
INTERPRETERS = re.compile(
    r"(python|pypy|node|nodejs|deno|bun|ruby|perl|php|lua|luajit|tclsh|expect|osascript|pwsh|powershell|julia|r|rscript|ghci"
    r"|bash|sh|zsh|dash|ksh|fish|csh|tcsh|ash|awk|gawk|mawk|nawk|sed|ed|ex|vi|vim|nvim|emacs|gdb|sqlite3|psql|mysql|jshell|irb)"
    r"[\d.]*"
)
"""Programs that run code from their arguments or input: a rule for one of them would allow everything."""
WRAPPERS = word_set(
    "env sudo doas timeout nice nohup time setsid xargs watch stdbuf command exec busybox builtin ionice chroot toybox"
)
"""Programs that run the command in their arguments."""
NETWORK = word_set(
    "curl wget wget2 aria2c http https xh httpie nc ncat netcat socat telnet ftp sftp lftp tftp ssh scp rsync mosh"
    " dig drill nslookup host getent ping ping6 traceroute tracepath whois openssl mail sendmail swaks"
)
"""Programs that contact the host in their arguments."""
RUNNERS = WRAPPERS | NETWORK
RUNNERS |= word_set(
    "su parallel docker podman kubectl nsenter unshare systemd-run at batch crontab npx bunx uvx pipx script strace"
    " ltrace gdb valgrind eval source . toybox find fd tar git-shell make-kpkg flock taskset chrt numactl unbuffer"
    " expect tmux screen entr nodemon coproc trap alias hash enable mapfile readarray complete compgen bind fc history"
    " let declare export typeset readonly local unset shopt open xdg-open start rm rmdir dd mkfs shred truncate chmod"
    " chown chgrp kill killall pkill mount umount ln install systemctl service launchctl apt apt-get yum dnf brew"
)
"""Programs for which no rule is suggested: they run others, use the network, delete, or redefine names."""
