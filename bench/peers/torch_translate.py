#!/usr/bin/env python3
"""Times training of a small translation model in PyTorch on the CPU: the peer of `transformer_bench translate`.

The model: post-norm Transformer, 4+4 layers, d_model 128, 4 heads, d_ff 256, ReLU, one embedding shared by source, target and
output; label smoothing 0.1, gradients clipped to norm 1, fused Adam. The batches are those of the other side: every line of
--batches is {"source": [[ids...], ...], "target": [[bos, ids...], ...], "labels": [[ids..., eos], ...]}. They are padded here
(id 0), which is what PyTorch trains on. Every variant prints one line of JSON; tokens_per_s counts source and target tokens
without the padding.

It is written the fast way: fused QKV products, scaled_dot_product_attention, no mask where none is needed (behind causality a
target's padding is never seen), the output projection for real tokens only, one look-up per side, masks and indices prepared
before the clock starts, and a C library told to keep freed memory.
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

D_MODEL, HEADS, D_FF, LAYERS, SMOOTHING, PAD = 128, 4, 256, 4, 0.1, 0


class Attention(nn.Module):
    """Self-attention with one product for Q, K and V; cross-attention with one for Q and one for K and V."""

    def __init__(self, cross: bool, causal: bool, dropout: float):
        super().__init__()
        self.cross, self.causal, self.dropout = cross, causal, dropout
        if cross:
            self.q, self.kv = nn.Linear(D_MODEL, D_MODEL), nn.Linear(D_MODEL, 2 * D_MODEL)
        else:
            self.qkv = nn.Linear(D_MODEL, 3 * D_MODEL)
        self.out = nn.Linear(D_MODEL, D_MODEL)

    def forward(self, x, memory, mask):
        parts = (self.q(x), *self.kv(memory).chunk(2, -1)) if self.cross else self.qkv(x).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in parts)  # [pairs, heads, tokens, d_head]
        dropout = self.dropout if self.training else 0.0
        if self.causal:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype), dropout_p=dropout)
        return self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, dropout: float):
        super().__init__()
        self.up, self.down, self.dropout = nn.Linear(D_MODEL, D_FF), nn.Linear(D_FF, D_MODEL), dropout

    def forward(self, x, memory, mask):
        return self.down(F.dropout(F.relu(self.up(x), inplace=True), self.dropout, self.training))


class Layer(nn.Module):
    """Post-norm: every sublayer is LayerNorm(x + dropout(sublayer(x)))."""

    def __init__(self, decoder: bool, options):
        super().__init__()
        sublayers = [Attention(False, decoder, options.attention_dropout)]
        if decoder:
            sublayers.append(Attention(True, False, options.attention_dropout))
        sublayers.append(FeedForward(options.ffn_dropout))
        self.sublayers = nn.ModuleList(sublayers)
        self.norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in sublayers)
        self.dropout = options.dropout

    def forward(self, x, memory, mask):
        for sublayer, norm in zip(self.sublayers, self.norms):
            x = norm(x + F.dropout(sublayer(x, memory, mask), self.dropout, self.training))
        return x


class Transformer(nn.Module):
    def __init__(self, vocabulary: int, longest: int, options):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, D_MODEL)
        self.encoder = nn.ModuleList(Layer(False, options) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Layer(True, options) for _ in range(LAYERS))
        self.dropout = options.dropout
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        nn.init.normal_(self.embedding.weight, std=D_MODEL**-0.5)
        angle = torch.arange(longest).unsqueeze(1) * torch.exp(torch.arange(0, D_MODEL, 2) * (-math.log(10000.0) / D_MODEL))
        self.register_buffer("positions", torch.stack((angle.sin(), angle.cos()), -1).flatten(1))

    def embed(self, ids):
        x = self.embedding(ids) * math.sqrt(D_MODEL) + self.positions[: ids.shape[1]]
        return F.dropout(x, self.dropout, self.training)

    def forward(self, source, mask, target, real, labels):
        """source, target [pairs, tokens]; mask [pairs, 1, 1, source tokens]: 0 or -inf; real: the target tokens that are no
        padding, as indices into all; labels: theirs."""
        memory, x = self.embed(source), self.embed(target)
        for layer in self.encoder:
            memory = layer(memory, None, mask)
        for layer in self.decoder:
            x = layer(x, memory, mask)
        logits = F.linear(x.flatten(0, 1).index_select(0, real), self.embedding.weight)
        return F.cross_entropy(logits, labels, label_smoothing=SMOOTHING)


def padded(sentences):
    rows = [torch.tensor(s, dtype=torch.int64) for s in sentences]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def read_batches(path):
    batches, tokens, padding = [], 0, 0
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            batch = json.loads(line)
            source, target, labels = padded(batch["source"]), padded(batch["target"]), padded(batch["labels"])
            length = torch.tensor([len(s) for s in batch["source"]]).unsqueeze(1)
            mask = torch.zeros(source.shape).masked_fill(torch.arange(source.shape[1]) >= length, -torch.inf)[:, None, None]
            length = torch.tensor([len(s) for s in batch["target"]]).unsqueeze(1)
            real = (torch.arange(target.shape[1]) < length).flatten().nonzero().squeeze(1)
            batches.append((source, mask, target, real, labels.flatten()[real]))
            count = sum(map(len, batch["source"])) + sum(map(len, batch["target"]))
            tokens += count
            padding += source.numel() + target.numel() - count
    if not batches:
        sys.exit(f"{path}: no batches")
    return batches, tokens, padding


def measure(mode: str, dtype: torch.dtype, batches, options):
    """Milliseconds of each batch, the median of all rounds, and the first and the last loss."""
    torch.manual_seed(0)
    vocabulary = options.vocabulary or 1 + max(int(t.max()) for b in batches for t in (b[0], b[2], b[4]))
    longest = max(max(b[0].shape[1], b[2].shape[1]) for b in batches)
    model = Transformer(vocabulary, longest, options).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, fused=True)
    forward = model if mode == "eager" else torch.compile(model, dynamic=True)

    def step(batch):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = forward(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss.item()

    first = statistics.mean([step(batch) for batch in batches])  # also compiles, and warms up
    times = [[] for _ in batches]
    for _ in range(options.rounds):
        losses = []
        for batch, list_of in zip(batches, times):
            start = time.perf_counter()
            losses.append(step(batch))
            list_of.append(1e3 * (time.perf_counter() - start))
    last = statistics.mean(losses)
    if not last < first:
        sys.exit(f"{mode} {dtype}: the loss went from {first:.3f} to {last:.3f}; this is not training")
    return [statistics.median(t) for t in times], first, last


def main():
    modes, dtypes = ("eager", "compile"), {"float32": torch.float32, "bfloat16": torch.bfloat16}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", required=True, help="file of JSON lines")
    parser.add_argument("--threads", type=int, nargs="+", default=[2], help="how many; several: one after the other")
    parser.add_argument("--modes", nargs="+", choices=modes, default=list(modes))
    parser.add_argument("--dtypes", nargs="+", choices=dtypes, default=list(dtypes))
    parser.add_argument("--rounds", type=int, default=3, help="passes over the batches; the median counts")
    parser.add_argument("--vocabulary", type=int, default=0, help="its size (0: the largest id that occurs, and 1)")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--attention-dropout", type=float, default=0.1)
    parser.add_argument("--ffn-dropout", type=float, default=0.1)
    options = parser.parse_args()
    keep_freed_memory()
    batches, tokens, padding = read_batches(options.batches)
    for threads, mode, name in itertools.product(options.threads, options.modes, options.dtypes):
        torch.set_num_threads(threads)
        torch.compiler.reset()
        times, first, last = measure(mode, dtypes[name], batches, options)
        line = {"peer": "pytorch", "version": torch.__version__, "mode": mode, "dtype": name, "threads": threads,
                "batches": len(batches), "ms_per_batch": round(statistics.mean(times), 2),
                "tokens_per_s": round(1e3 * tokens / sum(times)), "padding": round(padding / (padding + tokens), 3),
                "first_loss": round(first, 3), "last_loss": round(last, 3)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
