"""`python -m tests.map.ray [NAME...]`: `friday map --engine ray` on a cluster of two nodes with two processors each, on this machine.

node: a node is killed in the middle. cap: the cap over both nodes. back_off: one refusal delays both nodes. equal: results and
branches are those of the embedded engine. combined: they are reduced. signals: the command is interrupted, terminated, killed.
twice: a worker dies, and the next one too. Keys must be in no log of Ray and in no store. Needs `pip install 'friday-cli[ray]'`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from tests.map.__main__ import Place
from tests.map.service import Service, lines, serving
from tests.servers.fake_model_server import Say, Turn

ITEMS = 40
PREFIX = "friday-map-"
"""Of the folders of workers."""
KEY = "sk-ant-test-0123456789"
USAGE = (100, 10, 0)


class Nodes:
    """A cluster: a head without processors and two nodes with two each."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self.logs = folder / "r"
        Path(gettempdir(), "ray").mkdir(exist_ok=True)  # Ray writes the address of its newest cluster there
        os.environ |= {"ANTHROPIC_API_KEY": KEY, "RAY_USAGE_STATS_ENABLED": "0", "FRIDAY_HOME": str(folder / "workers")}
        self._cluster: Any = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "temp_dir": str(self.logs), "include_dashboard": False},
        )
        self._nodes = [self._cluster.add_node(num_cpus=2) for _ in range(2)]
        self.address: str = self._cluster.address

    def kill(self) -> None:
        """Kill a node with all its processes."""
        self._cluster.remove_node(self._nodes.pop(), allow_graceful=False)

    def close(self) -> None:
        """End all processes of the cluster."""
        self._cluster.shutdown()


def run(nodes: Nodes, folder: str, items: str, begin: Callable[[Service], None], *more: str, at: Any = None) -> Any:
    """Run a batch on the nodes. `at` is called with the service while it runs. Returns the place, the service, and the exit code and output."""
    top = Path(folder, f"b{time.monotonic_ns()}")
    top.mkdir()
    with serving() as service:
        begin(service)
        place = Place(top, service, items)
        place.env |= {"RAY_ADDRESS": nodes.address, "ANTHROPIC_API_KEY": KEY}
        process = place.start("--engine", "ray", "--sample", "0", *more)
        if at is not None:
            at(service, process)
        out, _ = process.communicate(timeout=300)
        return place, service, process.returncode, out


def slow(service: Service) -> None:
    """Replies take a while."""
    service.say = lambda turn: Say("found it", usage=USAGE, delay_s=0.5)


def node(nodes: Nodes, folder: str) -> Sequence[str]:
    """A node is killed in the middle: its items are tried again, once."""

    def kill(service: Service, process: subprocess.Popen[str]) -> None:
        while service.requests < ITEMS // 4 and process.poll() is None:
            time.sleep(0.01)
        nodes.kill()

    place, service, code, out = run(nodes, folder, lines(ITEMS), slow, at=kill)
    states = dict(place.rows("SELECT state, count(*) FROM items GROUP BY state"))
    (spent,) = place.rows("SELECT spent FROM batches")[0]
    print(
        f"  {states}, {service.requests} requests for {ITEMS} items; charged ${spent:.5f}, counted ${service.paid:.5f}"
    )
    problems = [] if (code, states) == (0, {"done": ITEMS}) else [f"exit {code}: {out[:1500]}"]
    if not ITEMS < service.requests <= ITEMS + 2:
        problems.append("not only the two items of the node were tried again, or none was running there")
    if float(str(spent)) < service.paid - 1e-9:
        problems.append("less was charged than the service counted")
    return problems


def cap(nodes: Nodes, folder: str) -> Sequence[str]:
    """The batch has money for some items only."""
    usd, price = 0.03, 0.0006  # of an item
    place, service, code, out = run(
        nodes, folder, lines(200), lambda service: costly(service, price), "--max-cost", str(usd)
    )
    states = dict(place.rows("SELECT state, count(*) FROM items GROUP BY state"))
    print(f"  {states}; counted ${service.paid:.5f} of ${usd}; exit {code}")
    good = code == 1 and service.paid <= usd and states.get("done", 0) > 4 and not states.get("failed")
    return [] if good else [out[:1500]]


def costly(service: Service, price: float) -> None:
    """Each reply costs `price` US dollars."""
    service.say = lambda turn: Say("found it", usage=(100, int((price - 100e-6) / 5e-6), 0))


def back_off(nodes: Nodes, folder: str) -> Sequence[str]:
    """One request is refused for three seconds: neither node sends another one meanwhile, except those in flight."""

    def refuse(service: Service) -> None:
        slow(service)
        service.refuse_at, service.retry_after = ITEMS // 2, 3

    _, service, code, out = run(nodes, folder, lines(ITEMS), refuse)
    refused = service.times[service.refuse_at - 1]
    during = [at - refused for at in service.times if 0.2 < at - refused < 3.0]
    print(f"  {service.requests} requests; {len(during)} of them between 0.2 and 3 s after the refusal; exit {code}")
    good = code == 0 and not during and service.requests == ITEMS + 1
    return [] if good else [f"{during} {out[:1500]}"]


MODEL = """
price: {input: 1.0, output: 5.0}
agents:
  "a.*":
    turns:
      - {calls: [{name: write_file, arguments: {path: made.txt, content: "made\\n"}}]}
    otherwise: {text: "made it"}
"""


def equal(nodes: Nodes, folder: str) -> Sequence[str]:
    """The same batch by both engines, in a repository with changes that are not committed."""
    top = Path(folder, "repository")
    top.mkdir()
    (top / "items.jsonl").write_text(lines(6))
    (top / "model.yaml").write_text(MODEL)
    (top / "seen.txt").write_text("old\n")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=top, check=True)
    (top / "seen.txt").write_text("new\n")
    found = []
    for engine in ("embedded", "ray"):
        home = Path(folder, f"home-{engine}")
        env = os.environ | {"FRIDAY_HOME": str(home), "RAY_ADDRESS": nodes.address}
        words = "map coder --items items.jsonl --max-cost 1 --model scripted:model.yaml --mode auto --isolation worktree --yes"
        words += f" --engine {engine}"
        texts = ["--task", "Make {id}.", "--check", "grep -q new seen.txt"]
        argv = [sys.executable, "-m", "friday_cli", *words.split(), *texts]
        ran = subprocess.run(argv, cwd=top, env=env, capture_output=True, text=True, check=False)
        rows = [json.loads(line) for line in ran.stdout.splitlines()]
        # the tokens differ by those of the longer path of the folder
        found.append([(row["item"], row["key"], row["state"], row["result"]) for row in rows])
        print(
            f"  {engine}: exit {ran.returncode}, {len(rows)} results, {sum(bool(row['branch']) for row in rows)} branches"
        )
        if ran.returncode or not all(row["branch"] for row in rows):
            return [ran.stderr[-1500:]]
        if engine == "ray":
            shown = subprocess.run(
                ["git", "show", f"{rows[0]['branch']}:made.txt"], cwd=top, capture_output=True, text=True, check=False
            )
            if shown.stdout != "made\n":
                return [f"the branch has no work: {shown.stderr}"]
            sessions = subprocess.run(
                [sys.executable, "-m", "friday_cli", "sessions", "show", rows[0]["agent"].partition(":")[0]],
                cwd=top,
                env=env,
                capture_output=True,
                text=True,
                check=False,
            )
            if "made it" not in sessions.stdout:
                return [f"the session is not here: {sessions.stderr}"]
    return [] if found[0] == found[1] else [f"{found[0]} and {found[1]}"]


def signals(nodes: Nodes, folder: str) -> Sequence[str]:
    """The command is interrupted, terminated and killed; the same command goes on, and nothing runs meanwhile."""
    problems: list[str] = []
    for number, expected in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)):
        more: list[int] = []

        def send(
            service: Service, process: subprocess.Popen[str], number: int = number, more: list[int] = more
        ) -> None:
            while service.requests < ITEMS // 4 and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(number)
            before = service.requests
            process.wait()
            time.sleep(2)
            more += [service.requests - before]

        with serving() as service:
            slow(service)
            place = Place(Path(tempfile.mkdtemp(dir=folder)), service, lines(ITEMS))
            place.env |= {"RAY_ADDRESS": nodes.address, "ANTHROPIC_API_KEY": KEY}
            process = place.start("--engine", "ray", "--sample", "0")
            send(service, process)
            first = process.returncode
            code, out = place.run("--engine", "ray", "--sample", "0")
            (spent,) = place.rows("SELECT spent FROM batches")[0]
            print(
                f"  {number.name}: exit {first}, {more[0]} requests afterwards, then exit {code} after {service.requests}"
                f" requests for {ITEMS} items; charged ${spent:.5f}, counted ${service.paid:.5f}"
            )
            if (first, code) != (expected, 0) or more[0] > 4 or service.requests > ITEMS + 8:
                problems.append(f"{number.name}: {out[:800]}")
            if float(str(spent)) < 0.95 * service.paid:  # what the workers of a killed command used is estimated
                problems.append(f"{number.name}: less was charged than the service counted")
    return problems


def twice(nodes: Nodes, folder: str) -> Sequence[str]:
    """A worker dies at each request: the item has failed after the second one, and both are charged."""

    def begin(service: Service) -> None:
        def say(turn: Turn) -> Say:
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    name = entry.read_bytes()
                    if name.startswith(b"ray::run_item"):
                        os.kill(int(entry.parent.name), signal.SIGKILL)
            return Say("found it", usage=USAGE, delay_s=1.0)

        service.say = say

    place, service, code, out = run(nodes, folder, lines(1), begin)
    rows = place.rows("SELECT state, error, cost FROM items")
    print(f"  {rows}; {service.requests} requests, counted ${service.paid:.5f}; exit {code}")
    good = code == 1 and service.requests == 2 and rows[0][0] == "failed" and "worker died" in str(rows[0][1])
    return [] if good and float(str(rows[0][2])) >= service.paid - 1e-9 else [out[:1500]]


def combined(nodes: Nodes, folder: str) -> Sequence[str]:
    """The results are reduced on the nodes."""
    _, service, code, out = run(nodes, folder, lines(4), slow, "--reduce", "summarizer")
    print(f"  {service.requests} requests for 4 items and the reduced result; exit {code}")
    return [] if code == 0 and service.requests == 5 and "found it" in out else [out[:1500]]


def keys(nodes: Nodes, folder: str) -> Sequence[str]:
    """The key is in no file that this run made."""
    tops = [Path(folder), *Path(gettempdir()).glob(f"{PREFIX}*")]
    found = [str(p) for top in tops for p in top.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    print(f"  {len(found)} files with the key")
    return found


CHECKS: tuple[Callable[[Nodes, str], Sequence[str]], ...] = (
    cap,
    back_off,
    equal,
    combined,
    signals,
    twice,
    node,
    keys,
)


def main() -> int:
    """Run what was asked for. The exit code is 1 if anything is not as it must be."""
    names = {check.__name__: check for check in CHECKS}
    parser = argparse.ArgumentParser(prog="python -m tests.map.ray", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"what to run: {', '.join(names)} (all without any)")
    wanted = parser.parse_args().name or names
    if find_spec("ray") is None:
        print("Ray is not installed: pip install 'friday-cli[ray]'")
        return 0
    code = 0
    with TemporaryDirectory(prefix="fm-") as folder:
        nodes = Nodes(Path(folder))
        try:
            for name in wanted:
                if name not in names:
                    parser.error(f"no {name!r}; there are {', '.join(names)}")
                begun = time.monotonic()
                problems = names[name](nodes, folder)
                for problem in problems:
                    print(f"  FAILED {problem}")
                print(f"{name}: {'NOT ' if problems else ''}as expected, {time.monotonic() - begun:.0f} s", flush=True)
                code = code or int(bool(problems))
        finally:
            nodes.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
