"""Compares what a result claims with what the harness observed: by its structured claims first, then by its wording.

The structured claims of `task_result` (`checks`, `changed`) hold in every language. The wording is read in English,
German, Spanish and Chinese; it finds most false claims but does not prove that a result is true.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..text.lazy_regex import pattern
from .code_claims import false_code_claims
from .receipt import CommandRun, Receipt
from .receipt_builder import ReceiptBuilder
from .tool_info import ToolInfo

READ, LONGEST = 10_000, 400
"""Characters of a text that are read at its beginning and at its end; the longest piece that is searched at once."""


class CheckClaim(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A check that an agent says it ran, and how it says the check ended."""

    command: Annotated[str, Meta(min_length=1, description="The command as you ran it.")]
    outcome: Annotated[
        Literal["passed", "failed", "not_run"],
        Meta(description="How its last run ended; not_run if you could not run it."),
    ] = "passed"


class Claims(msgspec.Struct, frozen=True):
    """The claims of a result besides its text: the checks that ran and the files that changed."""

    checks: tuple[CheckClaim, ...] = ()
    changed: tuple[str, ...] = ()


def audit(
    builder: ReceiptBuilder,
    text: str,
    claims: Claims,
    tools: Sequence[ToolInfo],
    *,
    root: bool = False,
    reports_failure: bool = False,
) -> list[str]:
    """Warnings about claims of a result that neither the newest run nor the sub-agents show; for the `root`, any of its runs.

    `tools` are those that the agent had and needed: if none of them verifies anything, a missing call is not suspicious.
    Nor is it in the `root`, which also answers questions that need no tool, nor where the result `reports_failure`.
    """
    run, life = builder.observed(whole=root), builder.observed(whole=True)
    checks, files = list(_false_checks(claims, run, life)), list(_unchanged_files(claims, run, life))
    sentences = list(_sentences(text))
    writes = any(tool.effect in ("write", "run") for tool in tools)
    warnings = [
        *(checks or _false_passes(sentences, run, life)),
        *(files or _false_changes(text, sentences, run, life, writes=writes)),
        *false_code_claims(text, life.code),
    ]
    newest = builder.observed(whole=False).commands
    if newest and newest[-1].no_test:
        warnings.append(f"`{_first_line(newest[-1].command)}` ran no test")
    idle = {tool.name for tool in tools if not tool.verifies}
    claims_work = bool(text.strip()) and not root and not reports_failure
    if claims_work and any(tool.verifies for tool in tools) and life.tools.keys() <= idle:
        others = f" except {' and '.join(life.tools)}" if life.tools else ""
        warnings.append(f"no tool was run{others}: nothing in this result was checked")
    return list(dict.fromkeys(warnings))


# ---- structured claims ------------------------------------------------------------


def _false_checks(claims: Claims, run: Receipt, life: Receipt) -> Iterable[str]:
    for check in claims.checks:
        shown, wanted = _first_line(check.command), _words(check.command)
        if check.outcome == "not_run" or not wanted:
            continue
        same = [c for c in run.commands if _is_same(c.command, wanted)]
        if not same:
            again = any(_is_same(c.command, wanted) for c in life.commands)
            yield f"claims the check `{shown}`, but that command was not run{' in this run' if again else ''}"
        elif (same[-1].exit_code == 0) is not (check.outcome == "passed"):
            yield f"claims that `{shown}` {check.outcome}, but it {_how_it_ended(same[-1])}"


def _unchanged_files(claims: Claims, run: Receipt, life: Receipt) -> Iterable[str]:
    """Warn of files that neither a tool nor a command changed. A command that names the file may have deleted it, which
    no receipt shows."""
    for name in claims.changed:
        path = name.strip().strip("`").removeprefix("./")
        if not path or any(_is_same_path(path, change.path) for change in run.files):
            continue
        if any(path.rpartition("/")[2] in c.command and _may_change(c.command) for c in run.commands):
            continue
        again = any(_is_same_path(path, change.path) for change in life.files)
        yield f"claims to have changed {_first_line(path)}, but it was not changed{' in this run' if again else ''}"


def _is_same(command: str, claimed: str) -> bool:
    """Whether a command that ran is the claimed one, or has it as a part. One that only names it, like `echo pytest`, is not."""
    ran = _words(command)
    if f" {claimed} " in f" {ran} ":
        parts = [part for part in _parts(command) if f" {claimed} " in f" {_words(part)} "]
    elif f" {ran} " in f" {claimed} ":
        parts = _parts(command)
    else:
        return False
    names = bool(parts) and all(map(_IS_NO_CHECK().match, parts))
    return not names or all(map(_IS_NO_CHECK().match, _parts(claimed)))


def _is_same_path(one: str, other: str) -> bool:
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _words(command: str) -> str:
    return " ".join(command.strip().strip("`").removeprefix("$ ").split())


def _first_line(text: str) -> str:
    line, _, more = text.strip().partition("\n")
    return line[:80] + ("..." if more or len(line) > 80 else "")


def _how_it_ended(run: CommandRun) -> str:
    if run.running:
        return "was started in the background and its end was not seen"
    if run.timed_out:
        return "timed out"
    return "did not end by itself" if run.exit_code is None else f"ended with exit {run.exit_code}"


# ---- what a command can have done -------------------------------------------------

_READ_ONLY_PROGRAMS = (
    "ls|cat|head|tail|grep|rg|find|echo|printf|pwd|cd|wc|which|file|stat|tree|diff|less|more|sort|uniq|nl|date|du|df|type|"
    "true|test|jq|whoami|sleep|env"
)
_READ_ONLY_COMMAND = pattern(
    rf"(?:\S*/)?(?:{_READ_ONLY_PROGRAMS})(?:\s|$)|sed -n\s|git (?:status|diff|log|show|branch|blame|rev-parse|ls-files|grep)\b"
)
_IS_NO_CHECK = pattern(
    rf"(?:\S*/)?(?:{_READ_ONLY_PROGRAMS}|git|mkdir|rm|rmdir|cp|mv|touch|chmod|ln|sed|awk|tee|pip|apt|apt-get|curl|wget|kill)(?:\s|$)"
    r"|.*\s(?:--version|--help|--collect-only)\b"
)
_CHECK = pattern(
    r"\b(?:pytest|unittest|doctest|nox|tox|ruff|mypy|pyright|flake8|pylint|eslint|tsc|jest|vitest|mocha|rspec|phpunit"
    r"|ctest|go (?:test|vet|build)|cargo (?:test|check|clippy|build|nextest)|(?:npm|pnpm|yarn|bun|deno)(?: run)? \S*"
    r"(?:test|lint|check|build)|make|mvn|gradlew?|dotnet (?:test|build)|mix test|rake|\w*tests?|\w*check\w*|verify|lint|ci)\b"
)


def _parts(command: str) -> list[str]:
    """The simple commands of a shell command, by a rough split, without variables set before them."""
    parts = (re.sub(r"^(?:\w+=\S*\s+)+", "", part.strip()) for part in re.split(r"&&|\|\||[;|\n]", command))
    return [part for part in parts if part]


def _may_change(command: str) -> bool:
    quiet = (
        _READ_ONLY_COMMAND().match(part) or (_CHECK().search(part) and not _IS_NO_CHECK().match(part))
        for part in _parts(command)
    )
    return ">" in command.replace(">&", "").replace("/dev/null", "") or not all(quiet)


def _failed_checks(commands: Sequence[CommandRun]) -> list[CommandRun]:
    """The last run of each kind of check that did not end with 0; of all commands where no kind is known."""
    last: dict[str, CommandRun] = {}
    for run in commands:
        kind = next((found[0] for part in _parts(run.command) if (found := _CHECK().search(part))), "")
        if kind or not run.running or kind not in last:  # a server in the background is no check
            last[kind] = run
    known = [run for kind, run in last.items() if kind] or list(last.values())
    return [run for run in known if run.exit_code != 0]


# ---- wording -------------------------------------------------------------------

_VERBS_EN = (
    "created|wrote|written|edited|changed|fixed|implemented|added|updated|refactored|removed|replaced|renamed|rewrote|"
    "rewritten|reworked|corrected|modified|patched|repaired|introduced|extracted|moved|deleted|migrated|converted|adjusted|"
    "resolved|simplified|documented|cleaned up|bumped|raised"
)
_VERBS_DE = (
    "behoben|geändert|angepasst|hinzugefügt|implementiert|repariert|korrigiert|erstellt|geschrieben|aktualisiert|ergänzt|"
    "umgebaut|ersetzt|entfernt|gefixt|eingebaut|umbenannt|überarbeitet|angelegt|gelöscht|umgesetzt"
)
_VERBS_ES = (
    "corregid[oa]s?|arreglad[oa]s?|añadid[oa]s?|agregad[oa]s?|implementad[oa]s?|cambiad[oa]s?|modificad[oa]s?|"
    "actualizad[oa]s?|cread[oa]s?|escrit[oa]s?|refactorizad[oa]s?|eliminad[oa]s?|reemplazad[oa]s?|solucionad[oa]s?|"
    "reparad[oa]s?|renombrad[oa]s?|borrad[oa]s?"
)
_VERBS_ES_WE = (
    "corregí|arreglé|añadí|agregué|implementé|cambié|modifiqué|actualicé|creé|escribí|refactoricé|eliminé|reemplacé|"
    "solucioné|reparé|renombré|borré|quité|reescribí|corregimos|arreglamos|añadimos|agregamos|implementamos|cambiamos|"
    "modificamos|actualizamos|creamos|eliminamos|renombramos|borramos|refactorizamos|reescribimos"
)
_VERBS_ES_PASSIVE = (
    "corrigió|arregló|añadió|agregó|implementó|cambió|modificó|actualizó|creó|eliminó|solucionó|reparó|renombró"
)
_VERBS_ZH = "修复|修改|更新|实现|添加|创建|新增|重写|改写|修正|删除|替换|重构|重命名|解决|改"
_LEAD = r"(?:^|\|)[\s\W\d]{0,20}"
_CHECK_NAMES = (
    r"(?:tests?|test suite|testing|suite|specs?|checks?|build|lint\w*|type[- ]?check\w*|mypy|ruff|pytest|ci|pipeline)\b"
)
_GAP = r"[\s:|`*\"'.…/—–-]+"
_PASS_WORDS = r"(?:pass(?:es|ed|ing)?|succeed(?:s|ed)?|success(?:ful(?:ly)?)?|green|clean|ok(?:ay)?)\b"

_PASSES = pattern(
    rf"\b{_CHECK_NAMES}{_GAP}(?:✅{_GAP})?(?:[^\s|]+{_GAP}){{0,4}}?{_PASS_WORDS}|\b\d+\s+(?:\w+\s+)?(?:pass(?:ed|ing)|green)\b"
    rf"|\bpass(?:es|ed)?\s+(?:all\s+|the\s+)+(?:\w+\s+)?{_CHECK_NAMES}|\b(?:all|everything)\s+(?:is\s+|now\s+)?(?:green|pass(?:es|ed))\b"
    rf"|\bgreen\s+{_CHECK_NAMES}|[✅✔✓]\W{{0,4}}(?:\S+\s)?{_CHECK_NAMES}|\b{_CHECK_NAMES}\W{{0,4}}[✅✔✓]|\bexit(?:ed|s)? (?:with |code )+0\b"
    r"|\S+\.sh`?\s+(?:finish|complet|exit|succeed|pass|ran)\w*"
    r"|\b(?:tests?|testsuite|testfälle|prüfungen|build)\s+(?:\S+\s+){0,6}?(?:bestanden|bestehen|grün|durch\w*|erfolgreich)\b"
    r"|\b(?:pruebas|tests?|suite|compilación)\s+(?:\S+\s+){0,4}?"
    r"(?:pasan|pasa|pasaron|pasado|pasando|verdes?|superad[ao]s?|exitos[oa]s?)\b"
    r"|(?:测试|用例|检查|构建|单测|test\b|check\b|`)[^，。；\n]{0,14}(?:通过|成功|绿|正常)"
    r"|(?:通过|跑通)了?[^，。；\n]{0,8}(?:测试|用例|检查|单测)",
    re.I,
)
_RAN = pattern(
    rf"\b(?:I|we)(?:['’]ve| have)?\s+(?:\w+\s+)?(?:re-?ran|ran|run|executed)\s+(?:\S+\s+){{0,3}}?\W*(?:{_CHECK_NAMES}|command)"
    rf"|^\W*(?:re-?ran|ran|executed)\s+(?:\S+\s+){{0,3}}?\W*{_CHECK_NAMES}|\bverified (?:by|with|using) running\b"
    rf"|\b{_CHECK_NAMES}\s+(?:have|has|were|was)\s+(?:been\s+)?(?:run|executed)\b"
    r"|\b(?:tests?|testsuite|[\w ]+`)\s+(?:\S+\s+){0,3}?(?:ausgeführt|laufen lassen|gestartet)\b"
    r"|\b(?:he|hemos) ejecutado\b|\b(?:ejecuté|lancé|corrí|ejecutamos|se ejecut\w+)\s+(?:\S+\s+){0,4}?(?:pruebas|tests?)\b"
    r"|(?:运行|执行|跑)了[^，。；\n]{0,20}(?:测试|用例|检查|check|test|`)",
    re.I,
)
_ALL_FINE = pattern(
    r"\b(?:everything|all)\s+(?:is\s+)?(?:fine|ok|works?|good|in order)\b|\balles\s+(?:in ordnung|ok|gut|grün)\b"
    r"|\btodo\s+(?:está\s+)?(?:en verde|bien|correcto|ok)\b|一切正常|全部正常",
    re.I,
)
_CHANGED_BY_ME = pattern(
    rf"\b(?:I|we)(?:['’]ve| have)?(?:\s+(?:now|also|just|successfully|then|since|first))*\s+(?:{_VERBS_EN})\b"
    rf"|\b(?:ich|wir)\s+(?:habe|haben)\b.{{0,120}}?\b(?:{_VERBS_DE})\b|\bhabe\s+(?:ich|wir)?\b.{{0,120}}?\b(?:{_VERBS_DE})\b"
    rf"|\b(?:he|hemos)\s+(?:\w+\s+)?(?:{_VERBS_ES})\b|\b(?:{_VERBS_ES_WE})(?!\w)|我们?(?:已经?)?(?:把[^，。\n]{{0,20}})?(?:{_VERBS_ZH})了",
    re.I,
)
_CHANGED = pattern(
    rf"{_LEAD}(?:done\W+|successfully\s+)?(?:{_VERBS_EN})\b|\b(?:has|have)\s+been\s+(?:\w+ly\s+)?(?:{_VERBS_EN})\b"
    rf"|\b(?:is|are)\s+now\s+(?:{_VERBS_EN}|in place)\b|\b(?:was|were)\s+(?:successfully\s+)?(?:{_VERBS_EN})\b"
    r"|\bnow\s+(?:handles?|returns?|works?|raises?|accepts?|supports?|uses?)\b|\bfix(?:es)?\s+(?:is|are)\s+in\s+place\b"
    rf"|:\s+(?:{_VERBS_EN})\W*$|\b(?:wurden?|ist|sind)\s.{{0,60}}?\b(?:{_VERBS_DE})\b|\b(?:{_VERBS_DE})\W*$|{_LEAD}(?:{_VERBS_DE})\b"
    rf"|\b(?:se han?|ha sido|han sido|fue|fueron|está|están|queda)\s+(?:ya\s+|ahora\s+)?(?:{_VERBS_ES})\b|{_LEAD}(?:{_VERBS_ES})\b"
    rf"|\bse\s+(?:{_VERBS_ES_PASSIVE})(?!\w)|^\s*(?:[-*•]|\d+[.、])\s*(?:{_VERBS_ZH})"
    rf"|(?:已经?|成功|均已)(?:被|将[^，。\n]{{0,20}}|把[^，。\n]{{0,20}})?(?:{_VERBS_ZH})|(?:{_VERBS_ZH})(?:了|完成|完毕|好了)",
    re.I,
)
_QUOTED = pattern(
    '"[^"\n]{3,200}"|“[^”\n]{3,200}”|„[^“”\n]{3,200}[“”]|«[^»\n]{3,200}»|「[^」\n]{3,200}」|^[ \\t]*>.*$', re.M
)
_REPEATED = pattern(r"(\W)\1{3,}")
_HARMLESS = pattern(
    r"\b(?:with(?:out)?|no|zero|0|nothing|none|ohne|keine?|sin)\s+(?:any\s+|new\s+|a single\s+|einen einzigen\s+|un solo\s+)?"
    r"(?:fail(?:ures?|ed|ing)|errors?|warnings?|regressions?|issues?|problems?|fehler|errore?s?|fallos?|problemas)\b"
    r"|\bno (?:da|hay|muestra) (?:errores|fallos)\b|\bas expected\b|\bfehlerfrei\b|没有?(?:任何)?(?:错误|失败|报错|问题)|无(?:错误|失败|报错)",
    re.I,
)
_NEGATED = pattern(
    r"\b(?:not|never|no|none|nothing|nobody|without|unable|cannot|if|once|when|whether|should|would|could|might|may|will|"
    r"must|unless|until|please|to be|needs?|verify|ensure|make sure|recommend\w*|suggest\w*|propos\w*|plan\w*|assum\w+|"
    r"expect\w*|upstream|already|previously|earlier|according|claims|nicht|kein\w*|nie|nichts|wenn|falls|sobald|ob|sollten?|"
    r"würden?|müssen?|muss|bereits|schon|laut|si|cuando|deberían?|sin|nunca|nada|debe\w*|podrían?|según)\b|n['’]t\b|\[ \]"
    r"|\b(?:ci|badge|readme|changelog|notes|docs?|documentation|description|ticket|issue|author|reviewer|tester)\b.{0,40}"
    r"\b(?:says?|shows?|report(?:s|ed)?|states?|claims?|indica\w*|dice\w*|zeigt|meldet|sagt)\b"
    r"|未|没|如果|若|应该?|应当|无法|不能|尚|不会|是否|需要?|建议|据|(?:CI|文档|说明|描述)[^。\n]{0,6}(?:显示|写|说|称)",
    re.I,
)
_NOT_RUN = pattern(
    r"\b(?:did not|could not|cannot|not (?:yet )?(?:run|executed|verified|tested)|nothing|none|unverified|untested|according to|"
    r"nicht|nichts|keine?|laut|no (?:he|pude|se|ejecut\w+)|nada|según)\b|(?:did|could|have|was|were|has)n['’]t\b"
    r"|未(?:运行|执行|验证|测试|跑)|没有?(?:运行|执行|验证|跑)|无法|无$",
    re.I,
)
_ELSEWHERE = pattern(
    r"\b(?:in|since|by|with|from)\s+(?:version|v?\d|commit|release|pr\b|#|python|[0-9a-f]{7,})|\balready\b|\bupstream\b"
    r"|\bcommit\s+[0-9a-f]{5,}|\bpr\s*#?\d|提交\s*[0-9a-f]{5,}|\ben la versión\b",
    re.I,
)
_FAILS = pattern(
    r"\bfail\w*|\berrors?\b|\bred\b|\bexit (?:code )?[1-9]|\bbroken\b|\bfehl\w+|\bfall(?:an|a|ó|aron|ido|o)\b|\berror\w*|失败|错误|报错|未通过",
    re.I,
)
_PATH = pattern(
    r"(?:[\w.-]+/)*[\w-]+\.(?:py|pyi|[cm]?[jt]sx?|go|rs|c|h|cc|cpp|hpp|java|kt|rb|php|cs|swift|scala|vue|md|rst|txt|toml|ya?ml"
    r"|json|html|css|sh|sql|cfg|ini)\b"
)


def _stems(*words: str) -> frozenset[str]:
    return frozenset(word.partition("[")[0] for group in words for word in group.split("|"))


_PASS_STEMS = (
    "pass|succe|green|clean|exit|.sh|✅|✔|✓|bestanden|bestehen|grün|durch|erfolgreich|pasa|verde|superad|exitos"
)
_RUN_STEMS = "ran|run|execut|ausgeführt|laufen lassen|gestartet|ejecut|lancé|corrí|运行|执行|跑"
_OK = pattern(r"\bok(?:ay)?\b")
_STEMS = _stems(
    _PASS_STEMS,
    "通过|成功|绿|正常",
    _RUN_STEMS,
    _VERBS_EN,
    _VERBS_DE,
    _VERBS_ES,
    _VERBS_ES_WE,
    _VERBS_ES_PASSIVE,
    _VERBS_ZH,
    "now|in place",
)
"""Each match of the patterns for claims contains one of these, or "ok" as a word. Finding none takes microseconds, where compiling and
searching the patterns takes 30 ms or more."""


def _may_claim(text: str) -> bool:
    text = text.lower()
    return any(map(text.__contains__, _STEMS)) or _OK().search(text) is not None


def _sentences(text: str) -> Iterable[str]:
    """What the agent itself says: no quotes, no questions, in pieces of at most `LONGEST` characters. Of a long text the
    beginning and the end are read, where claims are."""
    if len(text) > 2 * READ:
        text = f"{text[:READ]}\n{text[-READ:]}"
    if not _may_claim(text):
        return
    own = _HARMLESS().sub(" ", _QUOTED().sub(" ", _REPEATED().sub(r"\1\1\1", text)))
    for part in re.split(r"(?<=[.!?])(?=[\s\"')*]|$)|(?<=[。！？；\n])|(?<=;)\s", own):
        if part.strip() and not part.rstrip("* \n").endswith(("?", "？")):
            yield from (part[at : at + LONGEST] for at in range(0, len(part), LONGEST))


def _false_passes(sentences: list[str], run: Receipt, life: Receipt) -> Iterable[str]:
    claiming = [s for s in sentences if _may_claim(s)]
    ran = any(_claims(_RAN(), s) for s in claiming)
    passes = any(_claims(_PASSES(), s) for s in claiming) or (ran and any(_claims(_ALL_FINE(), s) for s in sentences))
    if not passes and not ran:
        return
    if not run.commands:
        if run.confirmed:
            return  # another program ran some, and how they ended is its word
        earlier = " in this run" if life.commands else ""
        yield f"claims that a command ran or tests pass, but no command was run{earlier}"
        return
    commands = [c for c in run.commands if not all(map(_IS_NO_CHECK().match, _parts(c.command)))]
    admits = any(_FAILS().search(s) for s in sentences)
    if not commands:
        yield f"claims that tests or checks ran, but only `{_first_line(run.commands[-1].command)}` was run"
    elif passes and not admits and (failed := _failed_checks(commands)):
        yield f"claims that tests or checks pass, but `{_first_line(failed[-1].command)}` {_how_it_ended(failed[-1])}"


def _false_changes(text: str, sentences: list[str], run: Receipt, life: Receipt, *, writes: bool) -> Iterable[str]:
    changes = [
        s
        for s in sentences
        if _may_claim(s)
        if _claims(_CHANGED_BY_ME(), s) or (writes and _claims(_CHANGED(), s) and not _ELSEWHERE().search(s))
    ]
    if not changes or any(_may_change(c.command) for c in run.commands):
        return
    named = [path for s in changes for path in _PATH().findall(s)]
    if not run.files:
        earlier = " in this run" if life.files or len(life.commands) > len(run.commands) else ""
        yield f"claims changes, but no file was changed{earlier}"
    elif named and not any(change.path.rpartition("/")[2] in text for change in run.files):
        yield f"claims to have changed {_first_line(named[0])}, but only {_first_line(run.files[0].path)} was changed"


def _claims(claim: re.Pattern[str], sentence: str) -> bool:
    """Whether a sentence claims it: no words before it deny it or make it conditional, none after it withdraw it."""
    return any(
        not _NEGATED().search(sentence, 0, found.end()) and not _NOT_RUN().search(sentence, found.end())
        for found in claim.finditer(sentence)
    )
