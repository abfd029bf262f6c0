"""Friday against a real llama.cpp server with a small context window, and with one that reads a long prompt for minutes. Its models have
random weights: what they write means nothing, but the server counts tokens, refuses what does not fit, and takes its time.

`python -m tests.counterparts llama` needs `pip install gguf xllamacpp`, which has the server of llama.cpp in it. Nothing here is part of
the tests.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = ()
"""It needs nothing from npm."""
SMALL, SLOW = (64, 128, 2), (512, 2_048, 8)
"""The width, the inner width and the blocks of a model."""
HEADS = 4
WINDOWS = (2_048, 4_096, 8_192, 65_536)
"""Tokens. The last one is that of the slow prompt."""
LONG_TIMES = 900
"""Sentences of the slow prompt."""
TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
START_S = 60.0
"""Seconds until the server must answer."""
USUAL_WAIT_S = 180.0
"""Seconds that a service elsewhere has for its first byte."""
SERVER = """
import sys, time, xllamacpp
given = xllamacpp.CommonParams()
given.model.path, given.port, given.n_ctx, given.n_parallel = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), 1
given.hostnames, given.model_alias, given.warmup = ["127.0.0.1"], {"model"}, False
given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(given)
time.sleep(86_400)
"""


def write_model(path: Path, shape: tuple[int, int, int]) -> None:
    """A Llama of random weights, whose tokens are bytes."""
    import numpy
    from gguf import GGUFWriter

    (size, hidden, blocks), random = shape, numpy.random.default_rng(0)
    pieces = [b"e", b"t", b"a", b"o", b" "]
    tokens = [b"<unk>", b"<s>", b"</s>", *(f"<0x{n:02X}>".encode() for n in range(256)), *pieces]
    writer = GGUFWriter(str(path), "llama")
    writer.add_context_length(WINDOWS[-1])
    writer.add_embedding_length(size)
    writer.add_block_count(blocks)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(size // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(n) for n in range(5)])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * 5)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_chat_template(TEMPLATE)

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(f"{name}.weight", (random.standard_normal(shape) * 0.05).astype(numpy.float32))

    add("token_embd", len(tokens), size)
    add("output", len(tokens), size)
    writer.add_tensor("output_norm.weight", numpy.ones(size, numpy.float32))
    for block in (f"blk.{n}." for n in range(blocks)):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{block}{norm}.weight", numpy.ones(size, numpy.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(block + name, size, size)
        for name in ("ffn_gate", "ffn_up"):
            add(block + name, hidden, size)
        add(f"{block}ffn_down", size, hidden)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextmanager
def serving(model: Path, window: int) -> Iterator[str]:
    """A server of llama.cpp with a window of so many tokens: its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [sys.executable, "-c", SERVER, str(model), str(port), str(window)]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        base, end = f"http://127.0.0.1:{port}/v1", time.monotonic() + START_S
        while True:
            try:
                urllib.request.urlopen(f"{base}/models", timeout=5).close()
                break
            except OSError:
                if time.monotonic() > end or server.poll() is not None:
                    raise RuntimeError("the server of llama.cpp did not start") from None
                time.sleep(0.2)
        yield base
    finally:
        server.kill()
        server.wait()


def ask(folder: Path, base: str, window: int, prompt: str) -> subprocess.CompletedProcess[str]:
    """A run of `friday ask` with a server."""
    home = folder / f"home-{window}"
    home.mkdir()
    settings = f'[providers.llamacpp]\nbase_url = "{base}"\nwindow = {window}\nmax_output = 64\n'
    (home / "config.toml").write_text(settings)
    env = os.environ | {"FRIDAY_HOME": str(home)}
    argv = [sys.executable, "-m", "friday_cli", "ask", "-m", "llamacpp/model", "--max-turns", "1", "-"]
    return subprocess.run(argv, cwd=folder, env=env, input=prompt, capture_output=True, text=True, timeout=3_600)


def answered(ran: subprocess.CompletedProcess[str]) -> bool:
    """Whether there is text, and all went well but for the length that a random model writes to."""
    return ran.returncode in (0, 5) and bool(ran.stdout.strip())


def small_windows(folder: Path) -> bool:
    """Print what happened with windows of several sizes. False if one is not as expected.

    The template of the model leaves out the tools, so a small request fits into 4,096 tokens and not into 2,048."""
    write_model(model := folder / "small.gguf", SMALL)
    good = True
    for window, fits in zip(WINDOWS, (False, True, True), strict=False):
        with serving(model, window) as base:
            ran = ask(folder, base, window, "Say hello.")
        right = answered(ran) is fits and "context window" in ran.stderr
        print(f"{window}: exit code {ran.returncode}, {'as expected' if right else 'NOT as expected'}\n{ran.stderr}")
        good = good and right
    return good


def slow_prompt(folder: Path) -> bool:
    """Print what happened with a prompt that the server reads for longer than any other service may take. False if it was not waited for."""
    write_model(model := folder / "slow.gguf", SLOW)
    with serving(model, WINDOWS[-1]) as base:
        begun = time.monotonic()
        ran = ask(folder, base, WINDOWS[-1], "A long text. " * LONG_TIMES)
        took = time.monotonic() - begun
    right = answered(ran) and took > USUAL_WAIT_S
    print(
        f"slow prompt: {took:.0f} s, exit code {ran.returncode}, {'as expected' if right else 'NOT as expected'}\n{ran.stderr}"
    )
    return right


def main(only: str = "") -> int:
    """Try what `only` is part of. The exit code is 1 if anything is not as expected."""
    if any(importlib.util.find_spec(name) is None for name in ("gguf", "xllamacpp")):
        print("llama: run `pip install gguf xllamacpp` first", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        tried = [check(Path(name)) for check in (small_windows, slow_prompt) if only in check.__name__]
    return int(not all(tried))


if __name__ == "__main__":
    sys.exit(main())
