"""The entry point. What must be instant is done here, before anything heavy is imported."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run `friday`; leaves the process with its exit code (README.md lists them), never with a traceback."""
    gc.disable()  # collecting while modules load costs a quarter of a short run
    _sound_streams()
    code = _run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:
        code = code or 1  # the answer did not arrive
    try:
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads the remarks; the answer is what counts
    os._exit(code)  # everything is closed and flushed; tearing the interpreter down would cost as much as a short run


def _sound_streams() -> None:
    """A stream that was closed leads nowhere, and one that cannot show a sign shows `?`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in this order: each takes its own number
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
        elif mode == "w" and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")


def _run(argv: list[str]) -> int:
    if argv[:1] in (["-p"], ["--print"]):  # what other assistants call it
        argv = ["ask", *argv[1:]]
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
            if values is not None and wants_chat(argv):
                from friday_cli.frontends.tui.run import main

                return main(values)
        from friday_cli.cli import run

        return run(argv)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        return 0  # `| head` took what it wanted
    except OSError as error:  # standard output is a full disk
        print(f"friday: {error.filename or 'standard output'}: {error.strerror or error}.", file=sys.stderr)
        return 1
    except Exception as error:  # a defect: a person gets one line, the log has the rest
        from friday_cli.diagnostics.log_file import unforeseen

        print(f"friday: {unforeseen(error)}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    main()
