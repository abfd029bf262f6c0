"""The entry point. Handles the fastest calls before anything heavy is imported."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any


def main() -> None:
    """Run `friday` and exit with its exit code (see README.md), never with a traceback."""
    gc.disable()  # garbage collection during imports takes a quarter of a short run
    _repair_streams()
    try:
        code = _run(sys.argv[1:])
    except SystemExit:
        raise
    except BaseException:  # what reports an error failed itself; threads that run on must not keep the process
        try:
            os.write(
                2, b"friday: ended by an error that could not be reported; memory or open files may have run out.\n"
            )
        finally:
            os._exit(1)
    try:
        sys.stdout.flush()
    except OSError:
        code = code or 1  # the output is incomplete
    try:
        sys.stderr.flush()
    except OSError:
        pass  # only the answer matters
    os._exit(code)  # everything is closed and flushed; a normal interpreter exit takes as long as a short run


def _repair_streams() -> None:
    """Replace closed streams by os.devnull; print an ASCII sign or `?` for characters that the encoding lacks."""
    for name, mode in (
        ("stdin", "r"),
        ("stdout", "w"),
        ("stderr", "w"),
    ):
        # in this order, so that each gets its own descriptor
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
        elif mode == "w" and (_charset_is_old() or stream.encoding.lower() != "utf-8"):
            _use_ascii_signs(stream)


def _charset_is_old() -> bool:
    """Whether the locale may name a charset other than UTF-8: a quick look, before anything is imported."""
    name = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "utf"
    return "utf" not in name.lower()


def _use_ascii_signs(stream: Any) -> None:
    """Print ASCII signs for characters that the encoding lacks. Python writes UTF-8 in the locale C: a terminal gets ASCII then."""
    from friday_cli.system.ascii_signs import encode_errors, lacks_utf8

    if stream.encoding.lower() != "utf-8":
        stream.reconfigure(errors=encode_errors())
    elif stream.isatty() and lacks_utf8(os.environ):
        stream.reconfigure(encoding="ascii", errors=encode_errors())


def _run(argv: list[str]) -> int:
    if argv[:1] in (["-p"], ["--print"]):  # the flag of other assistants
        argv = ["ask", *argv[1:]]
    elif "--" in argv and (argv[0] == "--" or argv[0].startswith("-")):  # behind it nothing is an option
        at = argv.index("--")
        argv = [*argv[:at], "-i", " ".join(argv[at + 1 :])]
    elif argv and " " in argv[0].strip() and not argv[0].startswith("-"):  # a message, which begins the chat
        argv = [*argv[1:], "-i", argv[0]]
    try:
        if argv in (["--version"], ["-V"], ["-v"]):
            from friday_cli import __version__

            print(f"friday {__version__}", flush=True)
            return 0
        if argv[:1] == ["ask"]:
            from friday_cli.frontends.oneshot.options import parse

            values = parse(argv[1:])
            if values is not None:
                from friday_cli.frontends.oneshot.run import ask

                return ask(values)
        if not argv or argv[0].startswith("-"):
            from friday_cli.frontends.tui.options import parse as chat_options
            from friday_cli.frontends.tui.options import wants_chat

            values = chat_options(argv)
            if values is None and len(argv) > 1 and " " in argv[-1]:
                values = chat_options([*argv[:-1], "-i", argv[-1]])
            if values is not None and values["background"]:
                from friday_cli.frontends.oneshot.options import of_chat
                from friday_cli.frontends.oneshot.run import ask

                return ask(of_chat(values))
            if values is not None and wants_chat(argv):
                from friday_cli.frontends.host import terminal

                terminal.start()  # before anything large is imported
                from friday_cli.frontends.tui.run import main

                return main(values)
        from friday_cli.cli import run

        return run(argv)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        return 0  # for example `| head`
    except OSError as error:  # for example a full disk
        from friday_cli.core.protocol.errors import words_of

        print(f"friday: {words_of(error, name='standard output')}", file=sys.stderr)
        return 1
    except Exception as error:  # a defect: one line for the person, the traceback in the log
        from friday_cli.diagnostics.log_file import report_defect

        print(f"friday: {report_defect(error)}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    main()
