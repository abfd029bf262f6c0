"""The table of read-only programs and their allowed options. Everything that is not in it needs approval."""

from __future__ import annotations

import re

from .options import ProgramSpec


def word_set(text: str) -> frozenset[str]:
    """The words of `text`, separated by blanks."""
    return frozenset(text.split())


_NUMBERS = "0123456789"
_GREP = ProgramSpec(
    flags="EFGPHhnivwxcloqsrabLZIyTzU" + _NUMBERS, values="emABCdD", files="f", instead="-e -f --regexp --file", lead=1,
    long="extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp"
    " line-regexp count color colour files-without-match files-with-matches only-matching quiet silent no-messages"
    " byte-offset with-filename no-filename line-number initial-tab null recursive text line-buffered null-data",
    long_values="regexp max-count label after-context before-context context binary-files devices directories include"
    " exclude exclude-dir",
    long_files="file exclude-from",
)  # fmt: skip
_SUM = ProgramSpec(free=True)
SPECS: dict[str, ProgramSpec] = {
    "ls": ProgramSpec(free=True, values="ITw", long_values="color sort time time-style format ignore hide block-size width"
               " indicator-style quoting-style tabsize hyperlink"),
    "cat": ProgramSpec(free=True), "tac": ProgramSpec(free=True, values="s"), "nl": ProgramSpec(free=True, values="bdfhilnsvw"),
    "rev": ProgramSpec(free=True), "head": ProgramSpec(free=True, values="cn", long_values="lines bytes"),
    "tail": ProgramSpec(free=True, values="cns", long_values="lines bytes sleep-interval pid max-unchanged-stats"),
    "wc": ProgramSpec(free=True, long_values="total"), "stat": ProgramSpec(free=True, values="c", long_values="format printf cached"),
    "du": ProgramSpec(free=True, values="dBt", files="X", long_values="max-depth block-size exclude threshold time-style"),
    "df": ProgramSpec(free=True, values="Btx", long_values="block-size type exclude-type output"),
    "file": ProgramSpec(flags="bihLkrNpv0", values="F", long="brief mime mime-type mime-encoding dereference version"),
    "cut": ProgramSpec(free=True, values="bcdf", long_values="bytes characters delimiter fields output-delimiter"),
    "paste": ProgramSpec(free=True, values="d", long_values="delimiters"), "fold": ProgramSpec(free=True, values="w"),
    "tr": ProgramSpec(free=True, text=True), "comm": ProgramSpec(free=True, long_values="output-delimiter"),
    "join": ProgramSpec(free=True, values="aejotv12"), "cmp": ProgramSpec(free=True, values="in"),
    "column": ProgramSpec(free=True, values="csoNHRTWEldCO"), "fmt": ProgramSpec(free=True, values="wgp"),
    "expand": ProgramSpec(free=True, values="t"), "unexpand": ProgramSpec(free=True, values="t"),
    "diff": ProgramSpec(flags="qsyrNiEZbwBatTpcued" + _NUMBERS, values="UCWIx", files="X",
                 long="brief report-identical-files side-by-side recursive new-file ignore-case ignore-all-space"
                 " ignore-space-change ignore-blank-lines unified context text minimal color expand-tabs suppress-common-lines"
                 " no-dereference strip-trailing-cr ed normal left-column show-c-function",
                 long_values="width label exclude ignore-matching-lines"),
    "strings": ProgramSpec(free=True, values="nteT"), "od": ProgramSpec(free=True, values="AjNStw"),
    "hexdump": ProgramSpec(flags="bcCdovx", values="nse"), "xxd": ProgramSpec(flags="abeEuiCp", values="clgsn", most=1),
    "cksum": _SUM, "sum": _SUM, "md5sum": _SUM, "sha1sum": _SUM, "sha224sum": _SUM, "sha256sum": _SUM,
    "sha384sum": _SUM, "sha512sum": _SUM, "b2sum": _SUM, "md5": _SUM, "shasum": ProgramSpec(free=True, values="a"),
    "sort": ProgramSpec(flags="bdfghiMnrRsuVzcCm", values="ktS", lead=0,
                 long="ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort"
                 " human-numeric-sort numeric-sort random-sort reverse stable unique version-sort check merge debug"
                 " zero-terminated", long_values="key field-separator sort buffer-size parallel"),
    "uniq": ProgramSpec(flags="cdDiuz" + _NUMBERS, values="fsw", most=1, long="count repeated all-repeated ignore-case unique group",
                 long_values="skip-fields skip-chars check-chars"),
    "basename": ProgramSpec(free=True, text=True, values="s", data=True), "dirname": ProgramSpec(free=True, text=True, data=True),
    "realpath": ProgramSpec(free=True), "readlink": ProgramSpec(free=True), "pwd": ProgramSpec(flags="LP", most=0),
    "echo": ProgramSpec(free=True, text=True, data=True), "true": ProgramSpec(free=True, text=True, data=True),
    "false": ProgramSpec(free=True, text=True, data=True), ":": ProgramSpec(free=True, text=True, data=True),
    "exit": ProgramSpec(text=True, data=True), "return": ProgramSpec(text=True, data=True), "break": ProgramSpec(text=True),
    "continue": ProgramSpec(text=True), "shift": ProgramSpec(text=True), "wait": ProgramSpec(text=True, most=0), "sleep": ProgramSpec(text=True, most=1),
    "seq": ProgramSpec(flags="w", values="fs", text=True), "expr": ProgramSpec(text=True), "factor": ProgramSpec(text=True),
    "whoami": ProgramSpec(most=0), "id": ProgramSpec(free=True, text=True), "groups": ProgramSpec(text=True), "users": ProgramSpec(most=0),
    "uname": ProgramSpec(flags="asnrmpiov", most=0, long="all"), "arch": ProgramSpec(most=0), "nproc": ProgramSpec(long="all", most=0),
    "uptime": ProgramSpec(flags="ps", most=0), "free": ProgramSpec(flags="bkmghtw", most=0), "tty": ProgramSpec(flags="s", most=0),
    "hostname": ProgramSpec(flags="sfidIA", most=0), "lscpu": ProgramSpec(most=0), "sw_vers": ProgramSpec(most=0), "locale": ProgramSpec(flags="a", most=0),
    "date": ProgramSpec(flags="uRI", values="d", files="r", text=True, most=1, long="utc universal iso-8601 rfc-email rfc-3339",
                 long_values="date", long_files="reference"),
    "cal": ProgramSpec(flags="13mjy", text=True), "which": ProgramSpec(flags="as", text=True), "whereis": ProgramSpec(text=True),
    "type": ProgramSpec(flags="afptP", text=True), "getconf": ProgramSpec(text=True),
    "tree": ProgramSpec(flags="adfihsDCnJXpugtrSNqFA", values="LPI", long="dirsfirst noreport prune gitignore du si inodes device",
                 long_values="filelimit"),
    "grep": _GREP, "egrep": _GREP, "fgrep": _GREP,
    "rg": ProgramSpec(
        flags="ncilwvoSshHNUFxpuPaI0q." + _NUMBERS, values="AeBCgtTmMrjdE", files="f", lead=1,
        instead="-e -f --regexp --file --files --type-list",
        long="files files-with-matches files-without-match line-number no-line-number ignore-case smart-case case-sensitive"
        " word-regexp line-regexp invert-match only-matching count count-matches hidden no-ignore no-ignore-vcs heading"
        " no-heading fixed-strings multiline multiline-dotall json column stats quiet no-messages trim null type-list text"
        " with-filename no-filename unrestricted pcre2 no-config pretty vimgrep passthru crlf max-columns-preview",
        long_values="glob iglob type type-not context after-context before-context max-count max-depth regexp replace sort sortr"
        " color colors max-columns max-filesize threads encoding engine context-separator", long_files="file ignore-file",
    ),
    "fd": ProgramSpec(flags="HIuasigFpl0" + _NUMBERS, values="tedEScjn", lead=1,
               long="hidden no-ignore unrestricted absolute-path case-sensitive ignore-case glob fixed-strings full-path print0"
               " list-details", long_values="type extension max-depth min-depth exact-depth exclude size color max-results"),
    "jq": ProgramSpec(flags="nrjacCMSsRe", lead=1, long="null-input raw-output join-output ascii-output"
               " compact-output color-output monochrome-output sort-keys slurp raw-input exit-status tab", long_values="indent"),
    "tokei": ProgramSpec(flags="fC", values="s", long="files compact", long_values="sort exclude type"),
    "ps": ProgramSpec(flags="AefFljHww", values="ouUpCtg", text=True),
}  # fmt: skip
SPECS["printf"] = ProgramSpec(text=True, data=True, free=True)
SPECS["fdfind"] = SPECS["fd"]
SPECS |= {
    "base64": ProgramSpec(flags="dDi", values="w", long="decode ignore-garbage", long_values="wrap"),
    "zcat": ProgramSpec(flags="f"),
    "gzcat": ProgramSpec(flags="f"),
    "shuf": ProgramSpec(flags="ez", values="ni", long_values="head-count input-range"),
    "bc": ProgramSpec(flags="lqsw", long="mathlib quiet standard warn"),
    "more": ProgramSpec(),
    "less": ProgramSpec(flags="NSRFXEr"),
    "man": ProgramSpec(text=True, most=2),
    "help": ProgramSpec(flags="ds", text=True),
    "umask": ProgramSpec(flags="S", most=0),
    "ulimit": ProgramSpec(flags="SHacdefilmnpqrstuvx", most=0),
    "jobs": ProgramSpec(flags="lp", most=0),
    "who": ProgramSpec(flags="abdHlmpqrstTu", most=0),
    "w": ProgramSpec(flags="hsfi", most=0),
    "logname": ProgramSpec(most=0),
    "lsblk": ProgramSpec(flags="afiltSmnpd", most=0),
    "ss": ProgramSpec(flags="tulnpaxs46eomi", most=0),
    "netstat": ProgramSpec(flags="tulnpaxsr46ei", most=0),
    "zipinfo": ProgramSpec(flags="12smlvhtzT", most=1),
    "unzip": ProgramSpec(flags="lvZ1", most=1),
}

QUIET = frozenset(SPECS) | word_set("ag sed awk find test cd")
"""Programs that contact no host, even if their arguments contain addresses."""
GIT_QUIET = word_set("add commit tag log show diff status grep blame branch checkout switch merge rebase stash")
SHELLS = word_set("sh bash zsh dash ksh")
BUILTINS = word_set(
    """
    echo printf test [ true false : pwd cd exit return break continue shift wait type command read set time kill
    help umask ulimit jobs
    """
)
"""Shell builtins: not looked up in PATH."""

VERSIONED = word_set(
    """
    python python3 node npm npx pnpm yarn bun deno go cargo rustc rustup ruby gem bundle perl php java javac kotlin
    scala gcc g++ clang cc make cmake ninja git docker podman kubectl helm terraform pip pip3 pipx uv uvx poetry
    hatch ruff mypy pytest tox black bash zsh fish tsc eslint prettier jest dotnet swift ghc stack cabal mix elixir
    lua R julia psql sqlite3 mysql gh aws gcloud az rg fd jq curl wget ssh tmux vim nvim emacs code friday
    """
)
"""Programs for which `--version` is read-only."""
SHORT_VERSIONS = frozenset(
    (("python", "-V"), ("python3", "-V"), ("node", "-v"), ("npm", "-v"), ("pnpm", "-v"), ("yarn", "-v"), ("php", "-v"))
) | frozenset(
    (
        ("java", "-version"),
        ("javac", "-version"),
        ("go", "version"),
        ("git", "version"),
        ("cargo", "version"),
        ("ruby", "-v"),
    )
)
"""Other version options. Not `python -v` and `bash -v`: those read a program from standard input."""

ENVIRONMENT = word_set(
    """
    CI NO_COLOR FORCE_COLOR CLICOLOR LANG LC_ALL LC_CTYPE LC_COLLATE LC_TIME TZ TERM COLUMNS LINES DEBUG VERBOSE
    NODE_ENV RUST_BACKTRACE RUST_LOG PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED LOG_LEVEL
    """
)
"""Variables that change the output of a program, not what it runs."""
INTERPRETERS = re.compile(
    r"(python|pypy|node|nodejs|deno|bun|ruby|perl|php|lua|luajit|tclsh|expect|osascript|pwsh|powershell|julia|r|rscript|ghci"
    r"|bash|sh|zsh|dash|ksh|fish|csh|tcsh|ash|awk|gawk|mawk|nawk|sed|ed|ex|vi|vim|nvim|emacs|gdb|sqlite3|psql|mysql|jshell|irb)"
    r"[\d.]*"
)
"""Programs that run code from their arguments or input: a rule for one of them would allow everything."""
WRAPPERS = word_set(
    "env sudo doas timeout nice nohup time setsid xargs watch stdbuf command exec busybox builtin ionice chroot"
)
"""Programs that run the command in their arguments."""
NETWORK = word_set(
    """
    curl wget wget2 aria2c http https xh httpie nc ncat netcat socat telnet ftp sftp lftp tftp ssh scp rsync mosh
    dig drill nslookup host ping ping6 traceroute tracepath whois openssl mail sendmail swaks
    """
)
"""Programs that contact the host in their arguments."""
RUNNERS = WRAPPERS | NETWORK
RUNNERS |= word_set(
    """
    su parallel docker podman kubectl nsenter unshare systemd-run at batch crontab npx bunx uvx pipx script strace
    ltrace gdb valgrind eval source . toybox find fd tar git-shell make-kpkg flock taskset chrt numactl unbuffer
    expect tmux screen entr nodemon coproc trap alias hash enable mapfile readarray complete compgen bind fc history
    let declare export typeset readonly local unset shopt open xdg-open start rm rmdir dd mkfs shred truncate chmod
    chown chgrp kill killall pkill mount umount ln install systemctl service launchctl apt apt-get yum dnf brew
    """
)
"""Programs for which no rule is suggested: they run others, use the network, delete, or redefine names."""
