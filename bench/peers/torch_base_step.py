#!/usr/bin/env python3
"""Times one training step of the original base Transformer in PyTorch on the CPU: the peer of transformer_bench.

The step: 16 sentence pairs of 32 tokens (no padding), 6+6 post-norm layers, d_model 512, 8 heads, d_ff 2048, ReLU, one
embedding of 32,000 words shared by source, target and output, dropout 0.1 everywhere the paper has it and on the attention
weights, label smoothing 0.1, gradients clipped to norm 1, fused AdamW. Every variant prints one line of JSON.
"""

import argparse
import itertools
import json
import math
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from freed_memory import keep_freed_memory

VOCABULARY, D_MODEL, HEADS, D_FF, LAYERS, DROPOUT, SMOOTHING = 32000, 512, 8, 2048, 6, 0.1, 0.1
PAIRS, LENGTH = 16, 32


class Attention(nn.Module):
    """Self-attention with one product for Q, K and V; cross-attention with one for Q and one for K and V."""

    def __init__(self, cross: bool, causal: bool):
        super().__init__()
        self.cross, self.causal = cross, causal
        if cross:
            self.q, self.kv = nn.Linear(D_MODEL, D_MODEL), nn.Linear(D_MODEL, 2 * D_MODEL)
        else:
            self.qkv = nn.Linear(D_MODEL, 3 * D_MODEL)
        self.out = nn.Linear(D_MODEL, D_MODEL)

    def forward(self, x, memory=None):
        parts = (self.q(x), *self.kv(memory).chunk(2, -1)) if self.cross else self.qkv(x).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in parts)  # [pairs, heads, tokens, d_head]
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT if self.training else 0.0, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(D_MODEL, D_FF), nn.Linear(D_FF, D_MODEL)

    def forward(self, x):
        return self.down(F.dropout(F.relu(self.up(x), inplace=True), DROPOUT, self.training))


class Layer(nn.Module):
    """Post-norm: every sublayer is LayerNorm(x + dropout(sublayer(x)))."""

    def __init__(self, decoder: bool):
        super().__init__()
        sublayers = [Attention(cross=False, causal=decoder)]
        if decoder:
            sublayers.append(Attention(cross=True, causal=False))
        sublayers.append(FeedForward())
        self.sublayers = nn.ModuleList(sublayers)
        self.norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in sublayers)

    def forward(self, x, memory=None):
        for sublayer, norm in zip(self.sublayers, self.norms):
            y = sublayer(x, memory) if getattr(sublayer, "cross", False) else sublayer(x)
            x = norm(x + F.dropout(y, DROPOUT, self.training))
        return x


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, D_MODEL)
        self.encoder = nn.ModuleList(Layer(decoder=False) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Layer(decoder=True) for _ in range(LAYERS))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        nn.init.normal_(self.embedding.weight, std=D_MODEL**-0.5)
        angle = torch.arange(LENGTH).unsqueeze(1) * torch.exp(torch.arange(0, D_MODEL, 2) * (-math.log(10000.0) / D_MODEL))
        self.register_buffer("positions", torch.stack((angle.sin(), angle.cos()), -1).flatten(1))

    def forward(self, source, target, labels):
        # One look-up for both sides: backward then fills one dense gradient of the table, not two.
        both = self.embedding(torch.cat((source, target))) * math.sqrt(D_MODEL) + self.positions
        memory, x = F.dropout(both, DROPOUT, self.training).chunk(2)
        for layer in self.encoder:
            memory = layer(memory)
        for layer in self.decoder:
            x = layer(x, memory)
        logits = F.linear(x.flatten(0, 1), self.embedding.weight)
        return F.cross_entropy(logits, labels.flatten(), label_smoothing=SMOOTHING)


def measure(mode: str, dtype: torch.dtype, warmup: int, steps: int):
    torch.manual_seed(0)
    model = Transformer().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    source, target, labels = torch.randint(0, VOCABULARY, (3, PAIRS, LENGTH)).unbind(0)
    if mode == "eager":
        forward = model
    else:
        forward = torch.compile(model, mode="default" if mode == "compile" else mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = forward(source, target, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss

    first = step().item()
    for _ in range(warmup - 1):
        step()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        loss = step()
        times.append(1e3 * (time.perf_counter() - start))
    last = loss.item()
    if not last < first:
        sys.exit(f"{mode} {dtype}: the loss went from {first:.3f} to {last:.3f}; this is not training")
    return times


def main():
    modes, dtypes = ("eager", "compile", "max-autotune"), {"float32": torch.float32, "bfloat16": torch.bfloat16}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[2], help="how many; several: one after the other")
    parser.add_argument("--modes", nargs="+", choices=modes, default=["eager", "compile"])
    parser.add_argument("--dtypes", nargs="+", choices=dtypes, default=list(dtypes))
    parser.add_argument("--warmup", type=int, default=3, help="steps before the clock starts (at least 1)")
    parser.add_argument("--steps", type=int, default=15, help="timed steps; the median counts")
    options = parser.parse_args()
    keep_freed_memory()
    for threads, mode, name in itertools.product(options.threads, options.modes, options.dtypes):
        torch.set_num_threads(threads)
        torch.compiler.reset()
        times = measure(mode, dtypes[name], max(1, options.warmup), max(1, options.steps))
        median = statistics.median(times)
        line = {"peer": "pytorch", "version": torch.__version__, "mode": mode, "dtype": name, "threads": threads,
                "ms_per_step": round(median, 1), "best_ms": round(min(times), 1),
                "tokens_per_s": round(1e3 * PAIRS * 2 * LENGTH / median)}  # source and target tokens
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
