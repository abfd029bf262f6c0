"""The table of faults: `python -m tests.e2e.faults > docs/faults.md` runs the tests of each fault and writes the results.

A row has the fault, what Friday does, and its tests. The command runs those tests and counts them, so the page has only
measured results. Tests are selected by node id, or by the beginning of one with a parameter.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pytest

from tests.e2e import test_odd_replies
from tests.e2e.test_faults import CASES

PROJECT = Path(__file__).parents[2]
MAIN = "tests/e2e/test_faults.py::test_the_main_agent"
CHILD = "tests/e2e/test_faults.py::test_sub_agents_with_a_fault_each"
PASSES = "tests/e2e/test_faults.py::test_a_fault_that_passes_leaves_no_trace_in_the_answer"
ODD = "tests/e2e/test_odd_replies.py::"
STRAY = ODD + "test_streams_that_stray"


@dataclass(frozen=True)
class Row:
    """A fault, what Friday does, and its tests in addition to the cases in test_faults.py and to `test_fN_*` in
    test_odd_replies.py."""

    fault: str
    outcome: str
    shown: tuple[str, ...] = ()


ROWS: dict[str, Row] = {
    "F1": Row("429 without a time", "up to six tries with a visible countdown and one rate limiter for all agents of the key, and more tries while other requests with that key succeed (for an hour at most); then failed, exit 75",
              ("tests/core/limits/test_rate_limit.py::", "tests/core/limits/test_retries.py::")),
    "F2": Row("429 with a short Retry-After", "all agents with that key wait for it, then the request is answered"),
    "F3": Row("429 with a long wait, a date, an invalid or a negative number", "longer than a minute: the run ends at once and reports the time; invalid: Friday's own back-off",
              ("tests/llm/transport/test_error_mapping.py::test_retry_after",)),
    "F4": Row("quota or credit used up", "one try, a one-line error, exit 1"),
    "F5": Row("529, 503, 500", "as F1, and after six in a row with one status as F8; another model only if `fallback_model` is set, and the change is reported",
              ("tests/core/limits/test_retries.py::test_the_fallback_model_continues_and_that_is_reported",)),
    "F6": Row("an HTML page with 502", "retried; the page is never printed"),
    "F7": Row("an HTML page or an empty body with 200", "not a success: two or three tries, then failed"),
    "F8": Row("connection refused, unknown host, TLS error", "all agents wait, and one at a time tries again, for `--timeout` or five minutes; then an error that names the host and the proxy, exit 75; a certificate: one try, exit 1",
              ("tests/e2e/test_faults.py::test_f8_no_service_is_reached", "tests/e2e/test_faults.py::test_f8_tls_that_is_none")),
    "F9": Row("reset or closed before the first byte", "as F8; a service that closes because it is full gets as many requests as it serves",
              ("tests/core/limits/test_outage.py::",)),
    "F10": Row("reset or closed within the text", "retried, the text is shown once; the partial text is kept if all tries fail"),
    "F11": Row("reset within the arguments of a call", "retried; the call never runs",
               ("tests/core/limits/test_retries.py::test_a_call_of_a_reply_that_broke_is_never_run",)),
    "F12": Row("a clean end without the final event", "not a success: as F10 and F11"),
    "F13": Row("silence", "ended at the idle timeout, retried once", ("tests/llm/transport/test_idle_timeout.py::test_silence_ends_the_wait_and_only_that",)),
    "F14": Row("only pings", "do not count as events: ended at the event timeout"),
    "F15": Row("one byte at a time", "read to its end", (STRAY,)),
    "F16": Row("overloaded, within a stream with 200", "as 529; the partial text is kept"),
    "F17": Row("invalid request or credentials, within a stream", "one try; no key is shown"),
    "F18": Row("response.failed", "as its error code says"),
    "F19": Row("arguments that are not valid JSON", "reported to the model; three times in a row end the run"),
    "F20": Row("unusual arguments", "a JSON object is accepted, anything else is reported to the model",
               (ODD + "test_each_call_has_one_result", "tests/llm/transport/test_tool_arguments.py::")),
    "F21": Row("megabytes of text, of arguments, in one event", "read up to the maximum of the request and a tenth, then cut; a stream of nothing is limited", ("tests/llm/transport/test_sse.py::test_a_megabyte_in_small_pieces", "tests/llm/transport/test_sse.py::test_an_event_without_end_is_given_up")),
    "F22": Row("invalid UTF-8, byte order marks, unusual line ends", "invalid bytes are replaced, the rest is read", (STRAY,)),
    "F23": Row("an event that is not JSON", "the try fails and is retried"),
    "F24": Row("the wrong content type; not a stream", "a stream is read; a JSON document is an error without a retry", (STRAY,)),
    "F25": Row("duplicate events, a second message", "read once", (STRAY,)),
    "F26": Row("a stop reason without an end", "accepted if all blocks are closed", (STRAY,)),
    "F27": Row("deltas of unknown blocks", "ignored", (STRAY,)),
    "F28": Row("an empty reply, only spaces, only thinking", "retried once, then failed with an empty reply"),
    "F29": Row("unknown events and stop reasons", "ignored; an unknown stop reason ends the reply with a note", (STRAY,)),
    "F30": Row("cut off at the output limit", "text is continued; an incomplete call does not run and is reported"),
    "F31": Row("a refusal", "shown, not retried; the session stays usable"),
    "F32": Row("the context is full", "compacted once and sent again; then a clear error and no loop", ("tests/core/agent/test_compaction.py::",)),
    "F33": Row("401, 403", "one try; the error names the variable of the key, the key is not shown"),
    "F34": Row("unknown model", "one try; similar names are suggested; for a sub-agent it is an error of its task",
               ("tests/e2e/test_faults.py::test_f34_names_near_to_a_model_that_is_not_there",
                "tests/llm/providers/test_anthropic.py::test_f34_near_names_are_those_listed_or_else_those_known")),
    "F35": Row("an invalid request", "one try, the message of the service"),
    "F36": Row("calls with the same id, unusual names, thirty at once", "each has exactly one result", (ODD + "test_each_call_has_one_result",)),
    "F37": Row("a call of a tool that the profile does not have", "refused, and counted in the receipt"),
    "F38": Row("“approved by the user” in a result", "treated as data: no mode, rule or answer changes"),
    "F39": Row("usage that is missing, negative, huge", "estimated; no total becomes negative", (STRAY,)),
    "F40": Row("408, 409, “do not retry”, a redirect", "the header is obeyed; the key is not sent to another host",
               ("tests/llm/transport/test_transports.py::test_no_redirect_is_followed",)),
    "F41": Row("a reply after the stop", "not read; the connection is closed", ("tests/e2e/test_signals.py::test_a_late_reply_after_a_stop_is_not_read",)),
    "F42": Row("killed, stopped and continued, a clock that jumps", "nothing that was written is lost, nor removed as old; suspended time does not count as silence",
               ("tests/fuzz/test_kills.py::", "tests/e2e/test_signals.py::test_f42_a_process_that_was_stopped_for_longer_than_every_limit_goes_on",
                "tests/session/test_open.py::test_a_clock_that_was_set_between_two_processes", "tests/session/test_cleanup.py::test_a_clock_that_",
                "tests/map/test_retention.py::",
                "tests/llm/transport/test_idle_timeout.py::test_time_the_process_slept_does_not_count")),
    "F43": Row("many sub-agents, each with a fault", "each ends by itself; none gets another's result",
               (CHILD, "tests/e2e/test_shared_rate_limit.py::test_twenty_children_against_two_places")),
    "F44": Row("an address with the wrong scheme, a port that speaks something else, a proxy that cannot be used", "one try; the error names the likely cause",
               ("tests/llm/transport/test_wrong_service.py::",)),
    "F45": Row("events that repeat their number", "do not count as events: ended at the event timeout",
               ("tests/llm/transport/test_wrong_service.py::test_a_stream_that_repeats_itself_is_not_alive",)),
    "F46": Row("a batch whose service is unwell", "no item starts, one at a time tries again; items stay `waiting`, and the same command continues",
               ("tests/cli/test_map_faults.py::test_a_service_that_fails_is_waited_for_and_the_batch_goes_on_by_itself",
                "tests/cli/test_map_faults.py::test_a_service_that_stays_unwell_leaves_the_items_waiting",
                "tests/cli/test_map_faults.py::test_an_item_that_the_service_fails_on_while_others_succeed_has_failed")),
    "F47": Row("a batch is killed, or its disk is full", "its cap holds; a lost reply is charged by estimate when the batch is looked at again", ("tests/map/test_books.py::",)),
    "F48": Row("the disk is full", "the run continues in memory, and standard error says so in every form of output; what was not saved is saved when there is room again",
               ("tests/session/test_open.py::test_a_session_is_saved_again_when_the_disk_is_no_longer_full", "tests/e2e/test_exits.py::test_the_store_on_a_full_disk", "tests/e2e/test_exits.py::test_a_session_that_cannot_be_saved_is_told_on_standard_error_whatever_the_output")),
    "F49": Row("damaged files of sessions and of batches, with their logs", "`sessions repair` saves what can be read and counts the rest",
               ("tests/store/test_repair.py::", "tests/map/test_repair.py::", "tests/store/test_opening.py::")),
    "F50": Row("a reader that never reads or has gone, blocked signals, a pipe or an endless file in the place of settings", "the time limit and SIGTERM hold; commands end; one line names the file",
               ("tests/e2e/test_pipes_and_signals.py::",)),
    "F51": Row("a file above 16 MB", "`read_file` finds each line that `grep` finds",
               ("tests/tools/test_files.py::test_a_file_too_large_shows_its_start_and_cannot_be_changed",)),
    "F52": Row("a session of the future, a batch after a conversation", "`-c` continues the last conversation",
               ("tests/store/test_sessions.py::", "tests/cli/test_map_faults.py::test_continue_means_the_conversation_and_not_the_batch")),
    "F53": Row("a window that is closed, also with thousands of typed characters that wait", "the chat, its commands and its hold of the session end within seconds",
               ("tests/frontends/tui/test_terminal.py::test_a_closed_window_ends_the_program_its_commands_and_its_hold_of_the_session",)),
    "F54": Row("a batch of a service is collected, and its process is killed", "each reply counts once in the batch, in `friday usage` and in caps over all sessions",
               ("tests/map/test_deferred.py::", "tests/cli/test_map_deferred.py::test_replies_that_a_killed_process_collected_are_counted_once")),
    "F55": Row("a file system that does not answer (a network drive, FUSE)", "after ten seconds one line says so; a signal, Ctrl+C, or the time limit, ends the process within seconds",
               ("tests/system/test_blocked_process.py::",)),
    "F56": Row("hooks that hang, flood, die or answer nonsense", "one line; the call goes on, or is denied if the hook says `onFailure: block`",
               ("tests/agents/hooks/test_hooks.py::test_a_hook_that_misbehaves_gives_one_line", "tests/agents/hooks/test_hooks.py::test_a_projects_hook_that_misbehaves_in_the_sandbox")),
    "F57": Row("submodules and repositories in the folder", "a sub-agent gets no worktree where submodules have files, which one line names; repositories in the folder are left out of it",
               ("tests/workspace/worktrees/test_create.py::test_submodules_with_files", "tests/workspace/worktrees/test_create.py::test_nested_repositories_are_excluded")),
    "F58": Row("another version of Friday on the same file", "an older one refuses in one line and changes nothing; a newer one brings the file up once",
               ("tests/store/test_opening.py::test_a_newer_form_is_refused_and_kept", "tests/store/test_opening.py::test_an_older_form_is_brought_up_once",
                "tests/first_version/test_first_version.py::", "tests/version_04dde396/test_version_04dde396.py::")),
    "F59": Row("the limit of processes and threads (`ulimit -u`)", "one line that says so, and nothing waits", ("tests/e2e/test_process_limit.py::",)),
    "F60": Row("more files than can be searched, watched or copied", "time and memory have limits, and one line says what is missing",
               ("tests/tools/test_search.py::test_too_much_to_look_through_is_said", "tests/workspace/worktrees/test_create.py::test_a_working_tree_that_is_too_large")),
}  # fmt: skip


NOT_COVERED = (
    "One byte a second (F15) is read on without `--timeout`: a slow service cannot be told from one that stalls on purpose.",
    "A batch that is killed in the moment between the stored mark of a request and its first byte is charged for a usual reply that no service "
    "counted, one for each item in this state.",
    "Tried by hand on 28 November 2026, without a test: a file system of FUSE that never answers (`ask` and the chat: one line after 10 s; a "
    "signal, Ctrl+C or `--timeout` ends them within 4 s where the event loop waits for it, else a minute after the signal), a repository "
    "of 100,000 commits (`ask`, `verify`, `fork` and a worktree take 2 to 5 s), a session of 10,000 messages and 200 MB (`sessions show` "
    "takes 13 s), 1,000,000 files beside other work (a search ends after 30 s and says so, a command takes 1.2 s and cannot be rewound, a "
    "worktree is refused after 26 s, `@` offers the first 300,000 files; at most 146 MB, `friday map --glob` took more than four minutes).",
)
"""What Friday does not do, or what nobody tried, for the end of the page."""


def played(fault: str) -> list[str]:
    """The tests of a fault, as beginnings of node ids."""
    cases = [name for name in CASES if name.startswith(f"{fault} ")]
    return [
        *(f"{test}[{name}" for test in (MAIN, PASSES) for name in cases),
        *([CHILD] if cases else []),
        *(ODD + name for name in vars(test_odd_replies) if name.startswith(f"test_{fault.lower()}_")),
        *ROWS[fault].shown,
    ]


def counts(fault: str, node: str) -> bool:
    """Whether the test `node` belongs to this fault: not if its id contains the name of another fault."""
    named = re.search(r"\[(F\d+) |-(F\d+) ", node)
    if named and fault not in named.groups():
        return False
    return any(node.startswith(start) for start in played(fault))


@dataclass(eq=False)
class Outcomes:
    """A pytest plugin that collects the outcome of each test."""

    found: dict[str, str] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.found[report.nodeid] = report.outcome


def play(files: Iterable[str]) -> dict[str, str]:
    """Run the tests of `files` and return the outcome of each by node id."""
    outcomes, said = Outcomes(), io.StringIO()
    with redirect_stdout(said):
        code = pytest.main(["-q", "-p", "no:cacheprovider", *sorted(set(files))], plugins=[outcomes])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(said.getvalue())
    return outcomes.found


def page(found: dict[str, str]) -> str:
    """The page with the table."""
    lines = [
        "# Faults of model services and processes",
        "",
        f"Made by `python -m tests.e2e.faults > docs/faults.md` on {date.today().isoformat()}: the command runs the tests of every",
        "fault against a server on the loopback interface and counts the results. The rows with a case in",
        "[tests/e2e/test_faults.py](../tests/e2e/test_faults.py) run for the main agent and for a sub-agent, with all three APIs,",
        "with streaming, over Friday's own transport and over the vendors' SDKs. From F44 on: faults of files, disks and processes.",
        "",
        "| | fault | what Friday does | tests | result |",
        "|---|---|---|---|---|",
    ]
    for fault, row in ROWS.items():
        ended = [outcome for node, outcome in found.items() if counts(fault, node)]
        good, bad = ended.count("passed"), ended.count("failed")
        files = sorted({Path(start.split("::")[0]).stem for start in played(fault)})
        result = f"{good} passed" + (f", **{bad} failed**" if bad else "")
        lines.append(f"| {fault} | {row.fault} | {row.outcome} | {', '.join(f'`{f}`' for f in files)} | {result} |")
    return "\n".join([*lines, "", "## Not covered", "", *(f"- {text}" for text in NOT_COVERED)]) + "\n"


if __name__ == "__main__":
    result = play(start.split("::")[0] for fault in ROWS for start in played(fault))
    print(page(result), end="")
    sys.exit(any(outcome == "failed" for outcome in result.values()) or not result)
