"""Commands written to be misread, by class, and what people write in their place.

`ASKED` must be asked about: each would change a file, run a program of the folder, or show a secret or a file outside.
`LOOKING` must pass, and the test runs it. `CHANGES` and `USES` are combined: what passes of them is run, too.
"""

from __future__ import annotations

ASKED: dict[str, tuple[str, ...]] = {
    "a variable that a function sets": (
        "f() { a=-delete; }; a=-print; f; find . $a", "a=-print; f() { a=-delete; }; f; find . $a", "f() { g() { a=-delete; }; g; }; a=-print; f; find . $a",
        "f() { o=--output=out; }; o=--stat; f; git diff $o", "f() { c=push; }; c=status; f; git $c", "f() { o=-oout; }; o=-r; f; sort $o x.txt",
        "f() { for a in -delete; do :; done; }; a=-print; f; find . $a", "f() { read a; }; a=-print; f <<< -delete; find . $a",
        "f() { a=-delete; }; a=-print; { f; }; find . $a", "f() { a=-delete; }; a=-print; if f; then find . $a; fi", "f() { n=.env; }; n=x.txt; f; cat $n",
        "function f { a=-delete; }; a=-print; f; find . $a", "f() { a=-delete; }; a=-print; f && find . $a", "f() { true && a=-delete; }; a=-print; f; find . $a",
        "g() { ls; }; f() { g; }; g() { f; f & }; f", "f() { (a=x); a=-delete; }; a=-print; f; find src $a",
    ),
    "a variable that a subshell sets": (
        "a=-delete; a=-print & find . $a", "a=-delete; { a=-print; } & find . $a", "a=-delete; a=-print && ls & find . $a", "n=.env; n=x.txt & cat $n",
        "n=.env; (n=x.txt); cat $n", "n=.env; n=x.txt | cat; cat $n", "n=.env; echo $(n=x.txt); cat $n", "n=.env; if n=x.txt & then cat $n; fi",
        "n=.env; for i in 1; do n=x.txt & done; cat $n", "n=.env; { n=x.txt & cat $n; }", "(n=.env; n=x.txt & cat $n)", "n=.env; ! n=x.txt & cat $n",
        "a=-delete; while read -r a & do :; done; find . $a", "n=.env; case a in a) n=x.txt & cat $n;; esac",
    ),
    "a variable that the shell or read sets": (
        "_=-print; true -delete; find . $_", "a=-print; command read a <<< -delete; find . $a", "a=-print; time read a <<< -delete; find . $a",
        "a=-print; while find . $a; do 'read' a <<< -delete; done", "a=-print; while find . $a; do re\\ad a <<< -delete; done",
        "v=a; a=-print; while find . $a; do read $v <<< -delete; done", "a=-print; while find . $a; do read \"a\" <<< -delete; done",
        "a=-print; builtin read a <<< -delete; find . $a", "a=-print; printf -v a -- -delete; find . $a", "a=-print; mapfile a < list.txt; find . $a",
        "a=-print; getopts d: a -d; find . $a", "a=-print; let a=1; find . $a", "a=-print; export a=-delete; find . $a", "a=-print; eval a=-delete; find . $a",
        "a=-print; declare a=-delete; find . $a", "a=-print; ((a=1)); find . $a", "a=-print; a+=0; find . $a", "a=-print; b=${a:=x}; find . $b",
    ),
    "a variable that printf sets": (
        "printf '%n' PATH; ls", "printf 'x%n' PATH && cat x.txt", "printf '%s%-5n' a PATH; git status", "printf %hn IFS; ls", "command printf '%ln' HOME; ls", "(printf '%.0s%*n' a 1 PATH; ls)",
        "f=%n; printf $f PATH; ls", "f() { printf '%n' PATH; }; f; ls", "printf '%%%n' PATH; ls", "if printf \"%n\" PATH; then ls; fi",
    ),
    "a setting or a list of files that holds a secret": (
        "git config --get sendemail.smtppass", "git config sendemail.smtpPass", "git config get github.oauth", "git config --global --get mytool.apikey", "git config azure.pat",
        "wc --f=list.txt", "wc --files=list.txt", "du --fi=list.txt", "du --files0-fr list.txt",
    ),
    "a folder that cd did not enter": (
        "true || cd src && cat ../outside/key.txt", "! cd src && cat ../outside/key.txt", "true || cd src; cat ../outside/key.txt", "cd src & cat ../outside/key.txt",
        "false && cd src || cat ../outside/key.txt", "{ true || cd src; } && cat ../outside/key.txt", "if ! cd src; then ls; else cat ../../outside/key.txt; fi",
        "cd short; cd ..; cat ../outside/key.txt", "cd short && cd .. && cat ../outside/key.txt", "cd short/.. && cat ../outside/key.txt",
        "(cd src); cat ../outside/key.txt", "cd src | cat; cat ../outside/key.txt",
    ),
    "sed": (
        "sed '/[]/s,]/e touch out,x,' x.txt", "sed 's/[]/]/p;/w out/p' x.txt", "sed '/[^]/s,]/e touch out,x,' x.txt", "sed 's/[[.].]/]/p;/w out/p' x.txt",
        "sed 's/[[=/=]/]/;w out' x.txt", "sed 's/[\\]/]/;w out;s/x/y/' x.txt", "sed 's/a/b/w out' x.txt", "sed 's/a/b/pw out' x.txt", "sed 's/t/touch out/e' x.txt", "sed 'y/a/b/;w out' x.txt",
        "sed '$!{w out' -e '}' x.txt", "sed -n '1W out' x.txt", "sed 'R .env' x.txt", "sed '1r .env' x.txt", "sed '1{e touch out\n}' x.txt", "sed -n 's,a,b,w out' x.txt",
        "sed p -i x.txt", "sed -n --in-place p x.txt", "sed -s -n w\\ out x.txt", "sed 'a\\' -e 'w out' x.txt", "sed -n p* x.txt", "sed 1~2w\\ out x.txt", "sed '\\,t,w out' x.txt",
        "sed --expression='w out' x.txt", "sed -nf list.txt x.txt", "sed -ne 'p' -e 'w out' x.txt", "sed 's/t/x/Iw out' x.txt",
    ),
    "awk": (
        "awk '{ if (1) { x=1 } print \"a\",\n\"b\" > \"out\" }' x.txt", "awk '{ print \"a\"\\\n> \"out\" }' x.txt", "awk '{ { print 1 } print 2, (3) ,\n4 > \"out\" }' x.txt",
        "awk '{ printf \"%s\",\n\"b\" >> \"out\" }' x.txt", "awk 'BEGIN { while (i++ < 1) { j = 1 } print i,\n i > \"out\" }'", "awk '{ print /[/]/, 1 > \"out\" }' x.txt",
        "awk '/[]/]/ { print 1,\n1 > \"out\" }' x.txt", "awk '{ print(1)(2)\n } { print 1,\n(2) > \"out\" }' x.txt", "awk '{ print \"touch out\" | \"sh\" }' x.txt", "awk '{ \"touch out\" | getline }' x.txt",
        "awk 'BEGIN { while ((getline l < \".env\") > 0) print l }'", "awk 'BEGIN { ARGV[1] = \".env\"; ARGC = 2 } 1'", "awk '{ print > $1 }' x.txt", "awk 'BEGIN { printf(\"x\") > \"out\" }'",
        "awk '{ close(\"x\"); print 1 > \"out\" }' x.txt", "awk 'BEGIN { system (\"touch out\") }'", "awk -v 'x=1' -f list.txt", "awk '1' x=1 .env", "awk 1 *",
    ),
    "a feed that xargs gets from elsewhere": (
        "find src -name '*.py'; xargs grep '' <<< .env", "find src -name '*.py'; xargs -0 cat < list.txt", "find src -name '*.py' | head list.txt | xargs grep ''",
        "find src -name '*.py' | tail -n 9 list.txt | xargs grep ''", "find src -name '*.py' | sort list.txt | xargs grep ''", "find src -name '*.py' | sort - list.txt | xargs grep ''",
        "find src -name '*.py' | xargs grep '' <<< .env", "find src -name '*.py' | xargs grep '' < list.txt", "find src -name '*.py' | uniq list.txt | xargs grep ''",
        "find src -name '*.py' | grep -h '' list.txt | xargs grep ''", "find src -name '*.py' | { ls; xargs grep ''; } < list.txt", "echo .env | { find src -name '*.py'; xargs grep ''; }",
        "echo .env | (find src -name '*.py'; xargs grep '')", "cat list.txt | if find src -name '*.py'; then xargs grep ''; fi", "find src -name '*.py' | while xargs grep ''; do :; done < list.txt",
        "find src -name '*.py' | cat | xargs grep ''", "find src -name '*.py' | grep -c '' | xargs grep ''", "find src -name '*.py' | grep -n '' | xargs grep ''", "find src -name '*.py' | sed 's/.*/.env/' | xargs grep ''",
        "find src -name '*.py' | grep -rh '' | xargs grep ''", "for i in 1; do find src -name '*.py'; done | xargs grep ''", "xargs grep '' <<< .env | find src -name '*.py'", "cat <<E | xargs grep ''\n.env\nE",
        "find src -name '*.py' | head -c 3 | xargs grep ''", "find src -name '*.py' | tail -v -n 3 | xargs grep ''", "git ls-files :/.. | xargs grep ''", "git ls-files ../ | xargs cat", "echo $(find src -name '*.py'; xargs grep '' <<< .env)",
    ),
    "patterns that bash reads otherwise": (
        "cat .[^x]nv", "cat .[!x]nv", "cat .[[:alpha:]]nv", "cat .[[:lower:]]nv", "cat .[^[:digit:]]nv", "cat [^x]ink.txt", "cat [[:lower:]]ink.txt", "cat .[]e]nv", "cat .[^]x]nv", "cat .[[=e=]]nv", "cat .[[.e.]]nv", "cat .?nv", "cat .*",
        "cat .*/../outside/key.txt", "cat s*[!x].pem", "head -n 1 .[d-f]nv", "grep '' .[^x]nv", "for f in .[^x]nv; do cat \"$f\"; done", "x='.[^x]nv'; cat $x", "cat linked/[^x]ut.md", "cat [^x]inked/out.md", "cat */out.md", "cat < .[^x]nv",
        "find . -name '.[^x]nv' -exec cat {} +", "find . -type f -name '.[^x]nv' -exec cat {} +", "find . -type f -name '[.]env' -exec cat {} +", "find . -type f -iname '.ENV' -exec cat {} +", "grep -r --include='.[^x]nv' '' .", "grep -r --include='[.]env' '' .",
        "grep -v *", "grep -hv *", "grep -e *", "grep -h -e *", "awk * x.txt", "head -n *", "rg -e *", "sort -k *", "cut -d *", "wc [^a]e*", "diff x.txt .[^x]nv", "test -f ../outsid[^x]/key.txt", "[ -f ../outsid[^x]/key.txt ]",
    ),
    "rg that shows what is hidden": (
        "rg -g '.env*' ''", "rg -g '*' ''", "rg --iglob '.ENV' ''", "rg --glob='*env' ''", "rg -g '**' ''", "rg -g '**/.env' ''", "rg -g '/.env' ''", "rg -g '.{env,x}' ''", "rg -g '.[e]nv' ''", "rg -g '*.pem' ''", "rg -g 'server*' ''",
        "rg --ignore-file list.txt ''", "rg -g '!x' -g '.e*' ''", "rg -. ''", "rg -uuu ''", "rg '' .env", "rg -f .env x.txt", "rg -g* ''", "rg -tall ''", "rg -t json -t all ''", "rg --files -g '*' | xargs grep ''", "rg --pre ./run.sh ''", "rg '' -- .e*",
    ),
    "find that names other files": (
        "find . -type d -name . -exec grep -r '' {} +", "find . -maxdepth 1 -name src | xargs grep -r ''", "find . -name '*.py' -exec grep -rd recurse '' . {} +", "find . -type d -exec grep -d recurse '' {} +",
        "find . -exec grep '' {} + -name '*.py'", "find . -exec cat {} + -type f", "find . -print -name '*.py' | xargs grep ''", "find . -print0 -type f | xargs -0 cat", "find . ! -path -name -exec grep '' {} +",
        "find . ! -regex -name -exec grep '' {} +", "find . ! -name '*.py' -o -name '*.md' | xargs grep ''", "find . \\( ! -name '*.py' -o -name '*.md' \\) -exec grep '' {} +", "find . ! ! -type f -o -true -exec cat {} +",
        "find . -not \\( -type f \\) -exec cat {} +", "find . -maxdepth 0 -exec grep '' {}/../outside/key.txt \\;", "find src -maxdepth 0 -exec cat {}/../.env \\;", "find . -maxdepth 1 -exec grep -r '' {}/.. \\;", "find . -name '*.py' , -exec grep '' {} +",
        "find . -type f -name x.txt -o -exec cat {} +", "find . -files0-from list.txt", "find . -type f -name '*.py' -exec wc -l {} + -o -exec cat {} +", "find . -name '*.py' -print -o -print | xargs grep ''", "find -L . -type f", "find . -type f -exec cat {} + -o -delete", "find . -fprintf out x", "find . -okdir cat {} \\;", "find . -name '*.py' -exec grep -f .env {} +",
        "find . -exec head -n 1 {} \\;", "find . -type f,l -exec cat {} +", "find . -type f -name '*' -exec grep '' {} +",
    ),
    "other programs": (
        "tar -tf x.tar -I ./run.sh", "sort --compress-program ./run.sh x.txt", "sort --files0-from=list.txt", "diff --from-file .env x.txt", "wc --files0-from list.txt", "du --files0-from=list.txt", "md5sum -c list.txt", "shasum -c list.txt", "date -f .env",
        "jq -n '\"../../x\" | modulemeta'", "jq -n 'env'", "jq -n --rawfile a .env '$a'", "file -f .env", "xxd x.txt out", "uniq x.txt out", "uniq -f 1 x.txt out", "tree -o out", "less -o out x.txt", "man ./x.1", "base64 .env", "shuf --random-source=.env x.txt",
        "comm .env x.txt", "paste x.txt .env", "od -c .env", "strings .env", "tac .env", "nl .env", "cut -c1- .env", "fold .env", "column .env", "cmp -l .env x.txt", "join .env x.txt", "rev .env", "cat ./src/../.env", "cat src/../.env", "cat my\\ dir/../.env",
        "ls > out", "echo x >out", "cat x.txt 1>out", "cat x.txt 2>>out", "echo x | tee out", ": >out", "ls 3>out", "ls {fd}>out", "cat <>out",
    ),
    "git": (
        "git log --format=%G?", "git log --pretty='format:%h %GS'", "git for-each-ref --format='%(signature)'", "git diff --submodule=diff", "git log -p --submodule=diff", "git show :0:.netrc", "git show :.env", "git show HEAD:./.env",
        "git -C short status", "git -C bare log -p", "git -C linkhead log -p", "git -C evil log", "cd bare && git log -p", "cd linkhead && git show", "git -C src diff --output=out", "git diff -o out", "git log --output out", "git grep -Oless x", "git -c alias.x=!touch x",
        "git -C src/.. push .", "git log --no-textconv --textconv", "git stash show --output=out", "git branch x", "git tag x", "git branch -q x", "git tag --column x", "git symbolic-ref HEAD refs/x", "git config a.b c", "git reflog expire --all", "git worktree prune",
    ),
}  # fmt: skip

LOOKING: dict[str, tuple[str, ...]] = {
    "variables and functions": (
        "a=-print; find src $a", "n=x.txt; cat $n; n=README.md; cat $n", "for f in src/*.py; do wc -l $f; done; for f in docs/*; do wc -l $f; done", "f() { ls src; }; f; f | head -1",
        "show() { cat README.md; }; show; n=x.txt; cat $n", "count() { wc -l src/*.py; }; count & wait", "ls & wait; echo done", "while read -r line; do echo \"$line\"; done < x.txt; echo end", "n=3; head -n $n x.txt; tail -n $n x.txt",
        "for d in src docs; do echo \"== $d\"; ls $d | head -3; done", "set -eu; set -o pipefail; ls | head -1", "d=src; ls $d && wc -l $d/a.py", "cd src && ls && cd .. && ls", "cd src || echo no; ls", "if cd src; then ls; fi", "(cd src && ls) & wait",
    ),
    "sed and awk": (
        "sed -n '1,5p' x.txt", "sed 's/[a-z]*/x/' x.txt", "sed 's/[^a-z]//g' x.txt", "sed 's/[[:space:]]*$//' x.txt", "sed -n '/^[A-Z]/p' x.txt", "sed '/^$/d' x.txt", "sed -E 's/(a|b)+/c/' x.txt", "sed -e '1d' -e '$d' x.txt", "sed 's/\\[x\\]/y/' x.txt",
        "awk '{ if ($1 > 5) { print $1 } }' x.txt", "awk '$2 > 3 { n++ } END { print n }' x.txt", "awk '/[a-z]+/ { print NR, $0 }' x.txt", "awk '{ for (i = 1; i <= NF; i++) print $i }' x.txt", "awk 'length($0) > 80' x.txt",
        "awk 'NR > 1 { print $1; if (NF > 2) print $2 }' x.txt", "awk -F: '{ printf \"%s\\n\", $1 }' x.txt", "awk '{ a[$1]++ } END { for (k in a) print k, a[k] }' x.txt",
    ),
    "pipes and patterns": (
        "find src -name '*.py' | sort | head -5 | xargs wc -l", "find src -name '*.py' | grep -v test | xargs grep -n x", "find src -type f -name '*.py' -print0 | xargs -0 head -n 1", "find src -name '*.py' | sort -u | tail -n 2 | xargs grep -l x",
        "git ls-files src | head -3 | xargs wc -l", "ls src/[ab].py", "ls src/[!x].py", "cat src/?.py", "cat src/[a-c].py", "ls *.md src/*.py | head", "wc -l src/**/*.py", "grep -n x src/[[:lower:]].py", "find . -name '[ab].py' -exec grep -n x {} +",
        "find src \\( -name '*.py' -o -name '*.md' \\) -exec grep -l x {} +", "find . -name '*.py' -not -path './node_modules/*' -exec grep -n x {} +", "find src -type f -exec head -n 1 {} +", "grep -rn x --include='[ab].py' .", "cat x.txt | xargs echo", "echo a b | xargs -n 1 echo",
    ),
    "rg and git": (
        "rg x src", "rg -g '*.py' x", "rg -g 'src/**/*.py' x", "rg -g '!*.md' x src", "rg -t py x", "rg -l x src | xargs wc -l", "git status", "git status --short", "git log --oneline -3", "git log -p -1", "git diff", "git diff --stat HEAD", "git show --stat HEAD", "git show HEAD:src/a.py",
        "git -C src log --oneline", "git ls-files", "git branch -a", "git diff --submodule=log", "git log --format='%h %an'", "cd sub && git status",
    ),
}  # fmt: skip

CHANGES = (
    "{a}; {b}", "{b}; {a}", "{a}; {b} &", "{a} & {b}", "{a}; ({b})", "({a}); {b}", "{a}; true && {b}", "{a}; false && {b}", "{a}; true || {b}", "{a}; {{ {b}; }}", "{a}; {{ {b}; }} &", "{a}; if true; then {b}; fi", "{a}; if false; then {b}; fi",
    "{a}; if {b}; then :; fi", "{a}; while {b}; false; do :; done", "{a}; until {b}; do :; done", "{a}; for i in; do {b}; done", "{a}; for i in 1; do {b}; done", "{a}; for i in 1; do break; {b}; done", "{a}; case a in b) {b};; esac",
    "{a}; case a in a) {b};; esac", "f() {{ {b}; }}; {a}; f", "f() {{ {b}; }}; {a}", "{a}; f() {{ {b}; }}; f", "f() {{ {a}; }}; {b}; f", "{a}; {b} | cat", "{a}; echo | {b}", "{a}; echo \"$({b})\"", "{a}; cat <({b})", "{a}; ! {b}", "{a}; bash -c '{b}'", "{a}; {b} && true",
    "{a}; {b} & wait", "{a}; (true; {b}) & wait", "{a}; true && {b} && true", "{a}; {{ true && {b}; }}", "{a}; while true; do {b}; break; done", "{a}; for i in 1; do continue; {b}; done", "{a}; f() {{ return; {b}; }}; f", "{a}\n{b}", "{a}; {b} > /dev/null",
    "{a}; {b} < missing", "{a}; ({b}) && true", "{a}; [ x = y ] && {b}", "{a}; {b} <<< x", "{a}; cat <<E\n$({b})\nE", "{a}; for i in 1 2; do {b}; break; done",
    "{a}; f() {{ :; }}; f; {b}", "{a}; f() {{ :; }}; {b} | f", "{b}; {a} & {b} & wait", "{a}; case x in x) ;; *) {b};; esac", "{a}; if [ -f x.txt ]; then {b}; fi",
    "{a}; if [ -f missing ]; then {b}; fi", "{a}; {{ {b} & }}", "{a}; time {b}", "{a}; true & {b}", "{a}; true && {b} &", "{a}; true | {b} &", "{a}; {b}; true &",
    "{a}; while read -r l; do {b}; done < x.txt", "{a}; while read -r l; do {b}; done < missing", "{a}; {{ {b}; }} < missing", "{a}; {{ {b}; }} > /dev/null", "{a}; exit 0 | {b}",
    "{a}; for i in $(true); do {b}; done", "{a}; diff <({b}) x.txt", "f() {{ {b}; }}; {a}; true | f", "f() {{ {b}; }}; {a}; f & wait", "{a}; nice {b}", "{a}; command {b}",
    "{a}; {b} 2>&1", "{a}; if true; then :; else {b}; fi", "{a}; if false; then :; elif {b}; then :; fi", "{a} && {b}", "{a} || {b}", "{a}; set -e; {b}",
)  # fmt: skip
"""Ways in which two assignments may follow each other."""
USES = (
    ("a=-delete", "a=-print", "find trash $a"), ("n=.env", "n=x.txt", "cat $n"), ("o=-oout", "o=-r", "sort $o x.txt"), ("d=../outside", "d=src", 'cat "$d"/key.txt'),
    ("o=--output=out", "o=--stat", "git diff $o"), ("cd src", "cd deep", "cat ../../outside/key.txt"),
)  # fmt: skip
"""Two assignments, the first a dangerous one, and a command whose harm depends on which of them counts."""
