#!/usr/bin/env python3
"""Times GPT-2 in its smallest size (random weights) in PyTorch on the CPU: the peer of the works prefill and decode of
`transformer_bench scaling`.

--prompt N reads N tokens of one sequence and computes the logits of the last; --sequences N writes one token of each of N sequences
after the other, with keys and values kept in tensors of the longest length. Every variant prints one line of JSON.
"""

import argparse
import itertools
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from freed_memory import keep_freed_memory

D_MODEL, HEADS, LAYERS, VOCABULARY, LONGEST = 768, 12, 12, 50257, 1024


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D_MODEL), nn.LayerNorm(D_MODEL)
        self.qkv, self.out = nn.Linear(D_MODEL, 3 * D_MODEL), nn.Linear(D_MODEL, D_MODEL)
        self.up, self.down = nn.Linear(D_MODEL, 4 * D_MODEL), nn.Linear(4 * D_MODEL, D_MODEL)

    def forward(self, x, kept, length):
        n = x.shape[1]
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        kept[0][:, :, length : length + n], kept[1][:, :, length : length + n] = k, v
        k, v = (t[:, :, : length + n] for t in kept)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, D_MODEL), nn.Embedding(LONGEST, D_MODEL)
        self.layers, self.norm = nn.ModuleList(Layer() for _ in range(LAYERS)), nn.LayerNorm(D_MODEL)

    def forward(self, ids, kept, length):
        x = self.tokens(ids) + self.places(torch.arange(length, length + ids.shape[1]))
        for layer, of_layer in zip(self.layers, kept):
            x = layer(x, of_layer, length)
        return F.linear(self.norm(x[:, -1]), self.tokens.weight)


def measure(model, dtype, options):
    """Seconds of a step: the prompt, or a token of each sequence."""
    rows, tokens = options.sequences, options.prompt or 1
    kept = [torch.zeros(2, rows, HEADS, LONGEST, D_MODEL // HEADS, dtype=dtype).unbind(0) for _ in range(LAYERS)]
    ids = (torch.arange(rows * tokens) * 7919 % 50000).view(rows, tokens)
    times = []
    with torch.inference_mode():
        for i in range(options.steps + 3):
            start = time.perf_counter()
            model(ids, kept, 0 if options.prompt else i % 64)
            times.append(time.perf_counter() - start)
    return statistics.median(times[3:])


def main():
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[2], help="how many; several: one after the other")
    parser.add_argument("--modes", nargs="+", choices=["eager"], default=["eager"])
    parser.add_argument("--dtypes", nargs="+", choices=dtypes, default=list(dtypes))
    parser.add_argument("--prompt", type=int, default=0, help="tokens to read; 0: tokens are written one by one")
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--steps", type=int, default=12, help="the median counts")
    options = parser.parse_args()
    keep_freed_memory()
    torch.manual_seed(0)
    for name in options.dtypes:
        model = GPT2().eval().to(dtypes[name])
        for threads in options.threads:
            torch.set_num_threads(threads)
            seconds = measure(model, dtypes[name], options)
            print(json.dumps({"peer": "pytorch", "version": torch.__version__, "mode": "eager", "dtype": name, "threads": threads,
                              "ms_per_step": round(1e3 * seconds, 2),
                              "tokens_per_s": round(options.sequences * (options.prompt or 1) / seconds, 1)}), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
