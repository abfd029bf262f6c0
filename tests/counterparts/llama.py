"""Friday against a real llama.cpp server with a small context window. Its model has random weights: what it writes means nothing,
but the server counts tokens and refuses what does not fit.

`python -m tests.counterparts.llama` needs `pip install gguf llama-cpp-python[server]`. Nothing here is part of the tests.
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
from pathlib import Path

PACKAGES = ()
"""It needs nothing from npm."""
SIZE, HIDDEN, BLOCKS, HEADS = 64, 128, 2, 4
TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
START_S = 60.0
"""Seconds until the server must answer."""


def write_model(path: Path) -> None:
    """A Llama of random weights, whose tokens are bytes."""
    import numpy
    from gguf import GGUFWriter

    random = numpy.random.default_rng(0)
    pieces = [b"e", b"t", b"a", b"o", b" "]
    tokens = [b"<unk>", b"<s>", b"</s>", *(f"<0x{n:02X}>".encode() for n in range(256)), *pieces]
    writer = GGUFWriter(str(path), "llama")
    writer.add_context_length(8_192)
    writer.add_embedding_length(SIZE)
    writer.add_block_count(BLOCKS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(SIZE // HEADS)
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

    add("token_embd", len(tokens), SIZE)
    add("output", len(tokens), SIZE)
    writer.add_tensor("output_norm.weight", numpy.ones(SIZE, numpy.float32))
    for block in (f"blk.{n}." for n in range(BLOCKS)):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{block}{norm}.weight", numpy.ones(SIZE, numpy.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(block + name, SIZE, SIZE)
        for name in ("ffn_gate", "ffn_up"):
            add(block + name, HIDDEN, SIZE)
        add(f"{block}ffn_down", SIZE, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def asked(folder: Path, window: int) -> subprocess.CompletedProcess[str]:
    """A run of `friday ask` with a server of `window` tokens. A token of this model is a byte, so it must have many."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [sys.executable, "-m", "llama_cpp.server", "--model", str(folder / "model.gguf"), "--port", str(port)]
    argv += ["--model_alias", "model", "--n_ctx", str(window)]
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
        home = folder / f"home-{window}"
        home.mkdir()
        settings = f'[providers.llamacpp]\nbase_url = "{base}"\nwindow = {window}\nmax_output = 64\n'
        (home / "config.toml").write_text(settings)
        env = os.environ | {"FRIDAY_HOME": str(home)}
        ask = [sys.executable, "-m", "friday_cli", "ask", "-m", "llamacpp/model", "--max-turns", "1", "Say hello."]
        return subprocess.run(ask, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    finally:
        server.terminate()
        server.wait()


def main() -> int:
    """Print what happened with windows of several sizes. The exit code is 1 if one is not as expected.

    The template of the model leaves out the tools, so a small request fits into 4,096 tokens and not into 2,048."""
    if any(importlib.util.find_spec(name) is None for name in ("gguf", "llama_cpp")):
        print("llama: run `pip install gguf 'llama-cpp-python[server]'` first", file=sys.stderr)
        return 2
    code = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model.gguf")
        for window, warned, expected in ((2_048, True, 1), (4_096, True, 0), (8_192, False, 0)):
            ran = asked(folder, window)
            right = (ran.returncode, bool(ran.stdout.strip())) == (expected, expected == 0)
            right = right and ("context window" in ran.stderr) is warned
            print(
                f"{window}: exit code {ran.returncode}, {'as expected' if right else 'NOT as expected'}\n{ran.stderr}"
            )
            code = code if right else 1
    return code


if __name__ == "__main__":
    sys.exit(main())
