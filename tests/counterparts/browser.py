"""The web pages of sessions and evals in a real browser, with texts that try to become script, markup or requests.

`python -m tests.counterparts browser` needs Chromium from the system's packages. It opens each page from a loopback server that
counts requests, looks for anything that ran, and writes pictures at three widths, light, dark and as paper, to docs/pictures: of the
demo, and of the eval with which docs/eval.md begins.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from friday_cli.evals.page import as_html as eval_page
from friday_cli.evals.results import EvalResults, TrialRow, eval_results
from friday_cli.map.job import MapJob
from friday_cli.map.store import BatchRow
from friday_cli.view.reports import FORMATS, RecordedSession
from tests.scenarios import numbered, tree
from tests.servers.loopback_server import Handler, serving
from tests.view.hostile import HOSTILE
from tests.view.test_pages import everywhere

PACKAGES = ()
"""It needs nothing from npm."""
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
WIDTHS = (390, 800, 1280)


def main() -> int:
    """Open the pages. Returns 1 if anything ran or was asked for, or if a large page is slow or too large."""
    browser = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    if browser is None:
        print("chromium is not installed: `apt install chromium`", file=sys.stderr)
        return 1
    problems = _hostile(browser) + _large(browser)
    _pictures(browser)
    for problem in problems:
        print(f"  {problem}")
    print(f"pictures at {', '.join(map(str, WIDTHS))} columns of pixels in {PICTURES}")
    return 1 if problems else 0


def _write(log: list, title: str = "") -> str:  # type: ignore[type-arg]
    return FORMATS["html"].write(RecordedSession("7f3a", log, "1.0", title))


def _hostile(browser: str) -> list[str]:
    problems = []
    for number in range(0, len(HOSTILE), 20):
        log = [each for text in HOSTILE[number : number + 20] for each in everywhere(text)]
        log = numbered(*((each.agent, each.event) for each in log))
        page = _write(log).replace("</title>", " page</title>", 1)
        problems += _opened(browser, page, f"a session with the texts {number} to {number + 19}")
    problems += _opened(browser, eval_page(_eval_of(HOSTILE)), "an eval with all of them")
    print(f"{len(HOSTILE)} texts: {problems or 'nothing ran and nothing was asked for'}")
    return problems


def _opened(browser: str, page: str, name: str) -> list[str]:
    """What a page did that it may not."""
    page = page.replace("//evil.example/x", "http://127.0.0.1:PORT/asked").replace("127.0.0.1:9", "127.0.0.1:PORT")
    with _served(page) as (url, asked):
        dom = _chromium(browser, "--dump-dom", url, script=True)
    found = [f"{name}: asked for {path}" for path in asked if path not in ("/", "/favicon.ico")]
    return [*found, f"{name}: a script is in the page"] if "<script" in dom.lower() or "ran=" in dom else found


def _eval_of(texts: Sequence[str]) -> EvalResults:
    """An eval whose tasks, arms and failures are called so."""
    rows = [
        TrialRow("", text, arm, 1, "", "", state="waiting", record=None, error=text, agent="")
        for text in texts
        for arm in texts[:3]
    ]
    options = {"arms": {arm: arm for arm in texts[:3]}, "trials": 1, "seed": 0}
    job = MapJob("", "eval", "eval", texts[0], "", options=options)
    return eval_results(BatchRow(texts[1], "", job, "ended", 0, 0, "", texts[2], 0, 0, 0, 0, 0), rows)


def _large(browser: str) -> list[str]:
    """A page of 200 agents: written within 2 s, at most 5 MB, and opened."""
    events = [(each.agent, each.event) for each in tree("7f3a")]
    for number in range(2, 200):
        events += [
            (f"a.{number}" if each.agent == "a.1" else each.agent, each.event)
            for each in tree("7f3a")
            if each.agent == "a.1"
        ]
    began = time.process_time()
    page = _write(numbered(*events))
    took = time.process_time() - began
    with _served(page) as (url, _):
        dom = _chromium(browser, "--dump-dom", url)
    print(
        f"200 agents: {took:.2f} s of a processor, {len(page.encode()) / 1e6:.2f} MB, {dom.count('<details class=' + chr(34) + 'agent')} conversations shown"
    )
    found = []
    if took > 2 or len(page.encode()) > 5_000_000:
        found.append(f"200 agents took {took:.1f} s and {len(page.encode())} bytes")
    if dom.count('<details class="agent"') != 200:
        found.append("the browser shows not all of 200 agents")
    return found


def _pictures(browser: str) -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "shop")
        folder.mkdir()
        (folder / "README.md").write_text("# Shop\n\nSells tea.\n")
        (folder / "main.py").write_text("def price(grams):\n    return grams * 0.08  # TODO: tax\n")
        asked = ("ask", "-q", "-m", "demo", "--allow", "bash(python3 *)", "-f", "json", "What is in this folder?")
        found = json.loads(_friday(folder, *asked))["session_id"]
        session = _friday(folder, "sessions", "export", found, "-f", "html").replace(str(folder), "/home/you/shop")
        arms = ("--arm", "quick=--effort low", "--arm", "careful=--effort high")
        result = _friday(folder, "eval", "run", "sample", *arms, "-m", "demo", "-f", "html")
    for name, page in (("session", session), ("eval", result)):
        with _served(page) as (url, _):
            for width in WIDTHS if name == "session" else (800,):
                picture = f"--screenshot={PICTURES / f'{name}-{width}.png'}"
                _chromium(browser, picture, f"--window-size={width},1100", url)
            if name != "session":
                continue
            dark = ("--blink-settings=preferredColorScheme=0", f"--screenshot={PICTURES / f'{name}-dark.png'}")
            _chromium(browser, *dark, "--window-size=800,1100", url)
            _chromium(browser, f"--print-to-pdf={PICTURES / f'{name}.pdf'}", "--no-pdf-header-footer", url)


def _friday(folder: Path, *argv: str) -> str:
    """What Friday prints in a folder, with its own files beside it."""
    env = os.environ | {"FRIDAY_HOME": str(folder.parent / "friday")}
    words = [sys.executable, "-m", "friday_cli", *argv]
    return subprocess.run(words, cwd=folder, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


def _chromium(browser: str, *arguments: str, script: bool = False) -> str:
    """The output of a browser without a window and with an empty profile."""
    with tempfile.TemporaryDirectory() as profile:
        argv = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        argv += [
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={profile}",
        ]
        argv += ["--virtual-time-budget=3000"] if script else []
        done = subprocess.run([*argv, *arguments], capture_output=True, text=True, timeout=120, check=False)
    return done.stdout


@contextmanager
def _served(page: str) -> Iterator[tuple[str, list[str]]]:
    """The address of a page, and the paths that were asked for. `PORT` in the page becomes the port of its own server."""
    asked: list[str] = []

    class Page(Handler):
        def do_GET(self) -> None:
            asked.append(self.path)
            port = url.rpartition(":")[2]
            self.answer(page.replace("PORT", port) if self.path == "/" else "", kind="text/html; charset=utf-8")

    with serving(Page) as url:
        yield f"{url}/", asked


if __name__ == "__main__":
    sys.exit(main())
