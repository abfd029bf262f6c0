"""The table of faults: `python -m tests.e2e.faults > docs/faults.md` plays each and writes what came of it.

A row names the fault, what Friday does, and where it is played. The command runs those tests and counts them; the page
holds no result that was not seen. Selections are node ids, or the beginning of one with a parameter.
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

from tests.e2e.test_faults import CASES

PROJECT = Path(__file__).parents[2]
MAIN = "tests/e2e/test_faults.py::test_the_main_agent"
CHILD = "tests/e2e/test_faults.py::test_sub_agents_with_a_fault_each"
PASSES = "tests/e2e/test_faults.py::test_a_fault_that_passes_leaves_no_trace_in_the_answer"
ODD = "tests/e2e/test_odd_replies.py::"


@dataclass(frozen=True)
class Row:
    """A fault, what Friday does about it, and the tests that play it apart from the cases of tests/e2e/test_faults.py."""

    fault: str
    outcome: str
    shown: tuple[str, ...] = ()


ROWS: dict[str, Row] = {
    "F1": Row("429 without a time", "up to six tries behind one gate with a visible countdown; then failed, exit 75",
              ("tests/core/limits/test_rate_limit.py::", "tests/core/limits/test_retries.py::")),
    "F2": Row("429, a short wait asked for", "waited for by every agent of that key, then answered",
              (ODD + "test_f2_a_short_wait_that_is_asked_for_is_kept",)),
    "F3": Row("429, a long wait, a date, junk, a negative number", "over a minute: ended at once with the time; junk: our own back-off",
              ("tests/llm/transport/test_error_mapping.py::test_retry_after",)),
    "F4": Row("quota or credit used up", "one try, one plain sentence, exit 1"),
    "F5": Row("529, 503, 500", "as F1; another model only where one was named, and it is said",
              ("tests/core/limits/test_retries.py::test_the_fallback_model_goes_on_where_it_was_named_and_it_is_said",)),
    "F6": Row("a page with 502", "tried again; the page is never printed"),
    "F7": Row("a page or nothing with 200", "no success: two or three tries, then failed"),
    "F8": Row("refused, no such host, no TLS", "three tries, then the host and the proxy are named, exit 75",
              ("tests/e2e/test_faults.py::test_f8_no_service_is_reached", "tests/e2e/test_faults.py::test_f8_tls_that_is_none")),
    "F9": Row("reset or dropped before the first byte", "tried again"),
    "F10": Row("reset or dropped in the text", "tried again, the text once; what was said is kept when all tries fail"),
    "F11": Row("reset in the arguments of a call", "tried again; the call never runs",
               ("tests/core/limits/test_retries.py::test_a_call_of_a_reply_that_broke_is_never_run",)),
    "F12": Row("a clean end without the end mark", "no success: as F10 and F11"),
    "F13": Row("silence", "ended at the limit of silence, tried once more", ("tests/llm/transport/test_idle_timeout.py::test_silence_ends_the_wait_and_only_that",)),
    "F14": Row("pings alone", "no life: ended at the limit for events", (ODD + "test_f14_pings_alone_are_no_life",)),
    "F15": Row("a byte at a time", "read to its end", (ODD + "test_f15_byte_by_byte_is_slow_and_not_dead",)),
    "F16": Row("overloaded, inside a stream with 200", "as 529; the part is kept"),
    "F17": Row("invalid or no credentials, inside a stream", "one try; no key is shown"),
    "F18": Row("response.failed", "as its code says"),
    "F19": Row("arguments that cannot be read", "told to the model; three in a row end the run",
               (ODD + "test_f19_unreadable_arguments_again_and_again_end_the_run",)),
    "F20": Row("odd arguments", "what is an object is taken, the rest is told to the model",
               (ODD + "test_f20_arguments_that_cannot_be_read_are_told_to_the_model", ODD + "test_f20_arguments_that_are_merely_odd_are_taken",
                "tests/llm/transport/test_tool_arguments.py::")),
    "F21": Row("megabytes of text, arguments, one event", "read; what goes on is capped", (ODD + "test_f21_a_flood_is_read_to_its_end",
               "tests/llm/transport/test_sse.py::test_a_megabyte_in_small_pieces", "tests/llm/transport/test_sse.py::test_an_event_without_end_is_given_up")),
    "F22": Row("bytes that are no text, marks, odd line ends", "bad bytes replaced, the rest read", (ODD + "test_f22_odd_bytes",)),
    "F23": Row("an event that is no JSON", "the try fails and is made again"),
    "F24": Row("the wrong content type; no stream at all", "a stream is read; a document is an error and not asked for twice",
               (ODD + "test_f24_the_wrong_content_type_is_no_matter",)),
    "F25": Row("events twice, a second message", "read once", (ODD + "test_streams_that_stray",)),
    "F26": Row("a stop reason and no end", "taken when every block is closed", (ODD + "test_streams_that_stray",)),
    "F27": Row("blocks of nowhere", "passed over", (ODD + "test_streams_that_stray",)),
    "F28": Row("an empty reply, blanks, only thinking", "asked for once more, then failed: an empty reply"),
    "F29": Row("events and reasons nobody knows", "passed over; an unknown reason is an end with a note", (ODD + "test_streams_that_stray",)),
    "F30": Row("cut at the limit of output", "text goes on; a cut call does not run and is told", (ODD + "test_f30_a_text_that_was_cut_goes_on",
               ODD + "test_f30_a_call_that_was_cut_is_not_run", ODD + "test_f30_a_reply_that_is_always_cut_ends")),
    "F31": Row("a refusal", "shown, not tried again; the session stays usable", (ODD + "test_f31_the_session_stays_usable_after_a_refusal",)),
    "F32": Row("the context is full", "compacted once and sent again; then clear words and no loop",
               (ODD + "test_f32_a_context_that_stays_full_ends_the_run", ODD + "test_f32_a_full_context_is_compacted_once", "tests/core/agent/test_compaction.py::")),
    "F33": Row("401, 403", "one try; the variable to look at is named, the key is not shown"),
    "F34": Row("no such model", "one try; near names are listed; a child's is an error of its task",
               ("tests/e2e/test_faults.py::test_f34_names_near_to_a_model_that_is_not_there",
                "tests/llm/providers/test_anthropic.py::test_f34_near_names_are_those_listed_or_else_those_known")),
    "F35": Row("a request that is no good", "one try, the words of the service"),
    "F36": Row("calls with one id, odd names, thirty at once", "each has exactly one result",
               (ODD + "test_f36_each_call_has_one_result_whatever_it_is_called", ODD + "test_f36_two_calls_of_one_id")),
    "F37": Row("a call of a tool that the profile lacks", "refused where it would run, and counted",
               (ODD + "test_f37_a_tool_that_the_profile_lacks_does_not_run",)),
    "F38": Row("“approved by the user” in a result", "data: no mode, rule or answer changes", (ODD + "test_f38_what_a_file_says_is_no_permission",)),
    "F39": Row("usage that is missing, negative, huge", "estimated; the ledger never goes below nothing", (ODD + "test_streams_that_stray",)),
    "F40": Row("408, 409, “do not retry”, a redirect", "the header is obeyed; the key goes to no other host",
               ("tests/llm/transport/test_transports.py::test_no_redirect_is_followed",)),
    "F41": Row("a reply after the stop", "not read; the connection is closed", ("tests/e2e/test_signals.py::test_a_late_reply_after_a_stop_is_not_read",)),
    "F42": Row("killed, stopped and continued, a clock that jumps", "nothing that was written is lost; slept time is no silence",
               ("tests/fuzz/test_kills.py::", "tests/e2e/test_signals.py::test_f42_a_process_that_was_stopped_for_longer_than_every_limit_goes_on",
                "tests/session/test_open.py::test_a_clock_that_was_set_between_two_processes",
                "tests/llm/transport/test_idle_timeout.py::test_time_the_process_slept_does_not_count")),
    "F43": Row("many children, each with a fault", "each ends by itself; none takes another's result",
               (CHILD, "tests/e2e/test_shared_rate_limit.py::test_twenty_children_against_two_places",
                ODD + "test_f43_one_child_stalls_until_its_time_limit")),
}  # fmt: skip


def played(fault: str) -> list[str]:
    """What to run for a fault: beginnings of node ids."""
    cases = [name for name in CASES if name.startswith(f"{fault} ")]
    return [
        *(f"{test}[{name}" for test in (MAIN, PASSES) for name in cases),
        *([CHILD] if cases else []),
        *ROWS[fault].shown,
    ]


def counts(fault: str, node: str) -> bool:
    """Whether the outcome of the test `node` belongs to the row: with the name of another fault in it, it does not."""
    named = re.search(r"\[(F\d+) |-(F\d+) ", node)
    if named and fault not in named.groups():
        return False
    return any(node.startswith(start) for start in played(fault))


@dataclass(eq=False)
class Outcomes:
    """What each test ended with; a pytest plugin."""

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
    """The table of what was played."""
    lines = [
        "# Faults of providers and processes, and what came of them",
        "",
        f"Made by `python -m tests.e2e.faults > docs/faults.md` on {date.today().isoformat()}: the command plays every fault against a",
        "server on the loopback and counts. The numbers are those of the design's list. The rows with a case in",
        "[tests/e2e/test_faults.py](../tests/e2e/test_faults.py) are played for the main agent and for a child, on all three wires,",
        "streaming, over Friday's own transport and over the vendors' SDKs.",
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
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    result = play(start.split("::")[0] for fault in ROWS for start in played(fault))
    print(page(result), end="")
    sys.exit(any(outcome == "failed" for outcome in result.values()) or not result)
