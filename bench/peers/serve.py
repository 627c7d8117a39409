#!/usr/bin/env python3
"""`transformer serve` beside llama.cpp's server, on the same model and in the same run, in turns.

    PYTHON bench/peers/serve.py --command build/transformer --out /tmp/serve

PYTHON is one that has numpy, and gguf and llama-cpp-python[server] for the peer: without them ours is measured alone. The latter's server
answers one request at a time; --llama-server names llama.cpp's own instead, which computes for several clients together (its sources come
with llama-cpp-python: cmake -S vendor/llama.cpp -B build && cmake --build build --target llama-server). The model has LLaMA's shape and
random weights; it is written as a Hugging Face folder and as GGUF, in float32 and in bfloat16. Clients ask for completions of --tokens
tokens, greedily, one after the other; what is printed is tokens a second of all clients together, the median of --rounds rounds.
"""

import argparse
import concurrent.futures
import http.client
import json
import pathlib
import re
import socket
import statistics
import struct
import subprocess
import sys
import time
import urllib.parse

import numpy

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--command", default="build/transformer")
arguments.add_argument("--out", default="build/serve-bench")
arguments.add_argument("--precision", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
arguments.add_argument("--clients", nargs="+", type=int, default=[1, 16])
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--tokens", type=int, default=64)
arguments.add_argument("--seconds", type=float, default=10, help="of each measurement")
arguments.add_argument("--rounds", type=int, default=3)
arguments.add_argument("--alone", action="store_true", help="ours only")
arguments.add_argument("--llama-server", help="llama.cpp's own server, a program")
options = arguments.parse_args()
out = pathlib.Path(options.out).resolve()
out.mkdir(parents=True, exist_ok=True)

SHAPE = {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 4,
         "max_position_embeddings": 1024, "vocab_size": 16000}
HEAD = SHAPE["hidden_size"] // SHAPE["num_attention_heads"]


def pieces():
    """The vocabulary: special tokens, all bytes, characters, and words that only make it large."""
    all = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ["▁"] + [chr(c) for c in range(33, 127)]
    return all + [f"▁word{i}" for i in range(SHAPE["vocab_size"] - len(all))]


def weights():
    random = numpy.random.default_rng(1)
    d, f, kv = SHAPE["hidden_size"], SHAPE["intermediate_size"], HEAD * SHAPE["num_key_value_heads"]
    normal = lambda *shape: (random.standard_normal(shape, dtype=numpy.float32) / numpy.sqrt(shape[-1])).astype(numpy.float32)
    tensors = {"model.embed_tokens.weight": normal(SHAPE["vocab_size"], d), "lm_head.weight": normal(SHAPE["vocab_size"], d),
               "model.norm.weight": numpy.ones(d, numpy.float32)}
    for i in range(SHAPE["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        for name, shape in {"self_attn.q_proj": (d, d), "self_attn.k_proj": (kv, d), "self_attn.v_proj": (kv, d), "self_attn.o_proj": (d, d),
                            "mlp.gate_proj": (f, d), "mlp.up_proj": (f, d), "mlp.down_proj": (d, f)}.items():
            tensors[layer + name + ".weight"] = normal(*shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[layer + name + ".weight"] = numpy.ones(d, numpy.float32)
    return tensors


def low(values):
    """float32 → the upper half of its bits, rounded to nearest even."""
    bits = values.view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def write_folder(folder, tensors, precision):
    folder.mkdir(exist_ok=True)
    dtype = "F32" if precision == "float32" else "BF16"
    stored = {name: (values if precision == "float32" else low(values)) for name, values in tensors.items()}
    header, at = {}, 0
    for name, values in stored.items():
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in stored.values():
            file.write(values.tobytes())
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", **SHAPE, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": precision}))
    vocabulary = {piece: i for i, piece in enumerate(pieces())}
    special = [{"id": i, "content": p, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
               for i, p in enumerate(pieces()[:3])]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, "pre_tokenizer": None, "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                                                     {"type": "Fuse"}]},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True}}))


def write_gguf(path, tensors, precision):
    import gguf

    # llama.cpp turns neighbouring pairs of a head, Hugging Face its halves.
    def turned(values, heads):
        return values.reshape(heads, 2, values.shape[0] // heads // 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)

    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
             "post_attention_layernorm": "ffn_norm"}
    whole = {"model.embed_tokens.weight": "token_embd.weight", "lm_head.weight": "output.weight", "model.norm.weight": "output_norm.weight"}
    file = gguf.GGUFWriter(str(path), "llama")
    file.add_block_count(SHAPE["num_hidden_layers"])
    file.add_context_length(SHAPE["max_position_embeddings"])
    file.add_embedding_length(SHAPE["hidden_size"])
    file.add_feed_forward_length(SHAPE["intermediate_size"])
    file.add_head_count(SHAPE["num_attention_heads"])
    file.add_head_count_kv(SHAPE["num_key_value_heads"])
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_dimension_count(HEAD)
    file.add_vocab_size(SHAPE["vocab_size"])
    file.add_file_type(gguf.LlamaFileType.ALL_F32 if precision == "float32" else gguf.LlamaFileType.MOSTLY_BF16)
    file.add_tokenizer_model("llama")
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.BYTE] * 256
    all = pieces()
    file.add_token_list(all)
    file.add_token_scores([-float(i) for i in range(len(all))])
    file.add_token_types(kinds + [gguf.TokenType.NORMAL] * (len(all) - len(kinds)))
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)
    file.add_add_bos_token(False)
    file.add_add_space_prefix(False)
    for name, values in tensors.items():
        if name in whole:
            to = whole[name]
        else:
            _, _, layer, rest = name.split(".", 3)
            part = rest.removesuffix(".weight")
            to = f"blk.{layer}.{names[part]}.weight"
            if part in ("self_attn.q_proj", "self_attn.k_proj"):
                values = turned(values, SHAPE["num_attention_heads" if part == "self_attn.q_proj" else "num_key_value_heads"])
        if precision == "bfloat16" and values.ndim > 1:
            file.add_tensor(to, low(values).view(numpy.uint8).reshape(values.shape[0], -1), raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            file.add_tensor(to, values)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Ours:
    name = "transformer"

    def __init__(self, precision):
        words = [str(pathlib.Path(options.command).resolve()), "serve", f"model={out / precision}", "--port", "0", "--threads",
                 str(options.threads), "--precision", precision]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"http://127.0.0.1:(\d+)", line):
                self.port = int(found[1])
                return
        sys.exit("transformer serve did not start")


class Llama:
    name = "llama.cpp"

    def __init__(self, precision):
        self.port = free_port()
        model, threads = str(out / f"{precision}.gguf"), str(options.threads)
        if options.llama_server:
            together = max(options.clients)
            words = [options.llama_server, "--model", model, "--alias", "model", "--parallel", str(together), "--ctx-size", str(512 * together),
                     "--threads", threads, "--threads-batch", threads]
        else:
            words = [sys.executable, "-m", "llama_cpp.server", "--model", model, "--model_alias", "model", "--n_ctx", "512", "--n_threads",
                     threads, "--n_threads_batch", threads, "--interrupt_requests", "False", "--verbose", "False"]
        words += ["--host", "127.0.0.1", "--port", str(self.port)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
                connection.request("GET", "/v1/models")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        sys.exit("llama.cpp's server did not start")


def ask(port, prompt):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = {"model": "model", "prompt": prompt, "max_tokens": options.tokens, "temperature": 0}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    if response.status != 200:
        sys.exit(f"{response.status}: {text[:500]!r}")
    return json.loads(text)


def throughput(port, clients, seconds):
    begin, tokens = time.perf_counter(), 0

    def work(number):
        done, k = 0, 0
        while time.perf_counter() - begin < seconds:
            done += ask(port, f"Client {number} asks for the {k}th time")["usage"]["completion_tokens"]
            k += 1
        return done

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        tokens = sum(pool.map(work, range(clients)))
    return tokens / (time.perf_counter() - begin)


def main():
    kinds = [Ours]
    if not options.alone:
        try:
            import gguf  # noqa: F401

            if not options.llama_server:
                import llama_cpp  # noqa: F401
            kinds.append(Llama)
        except ImportError as missing:
            print(f"ours alone: {missing} (pip install 'llama-cpp-python[server]' gguf)")
    tensors = None
    for precision in options.precision:
        if not (out / precision / "tokenizer.json").exists() or (Llama in kinds and not (out / f"{precision}.gguf").exists()):
            tensors = tensors or weights()
            write_folder(out / precision, tensors, precision)
            if Llama in kinds:
                write_gguf(out / f"{precision}.gguf", tensors, precision)
        servers = [kind(precision) for kind in kinds]
        try:
            texts = [ask(s.port, "The same words for both")["choices"][0]["text"] for s in servers]
            if len(texts) == 2:
                same = next((i for i, (a, b) in enumerate(zip(*texts)) if a != b), min(map(len, texts)))
                print(f"{precision}: the answers are equal in their first {same} of {len(texts[0])} characters")
            for clients in options.clients:
                rates = {s.name: [] for s in servers}
                for _ in range(options.rounds):
                    for s in servers:
                        rates[s.name].append(throughput(s.port, clients, options.seconds))
                middle = {name: statistics.median(all) for name, all in rates.items()}
                line = ", ".join(f"{name} {rate:.0f} tokens/s ({min(rates[name]):.0f} to {max(rates[name]):.0f})" for name, rate in middle.items())
                ratio = f": {middle[Ours.name] / middle[Llama.name]:.2f} times as many" if len(servers) == 2 else ""
                print(f"{precision}, {clients} clients: {line}{ratio}", flush=True)
        finally:
            for s in servers:
                s.process.terminate()
                s.process.wait(60)


if __name__ == "__main__":
    main()
