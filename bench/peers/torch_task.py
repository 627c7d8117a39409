#!/usr/bin/env python3
"""Times training of a language model, an encoder of text, a classifier of images or a forecaster in PyTorch on the CPU: the peer of
`transformer_bench task`.

--model is a folder with config.json and model.safetensors, the weights that the other side begins with too; --batches a safetensors
file of its batches, "0.input_ids", "0.labels", "1.input_ids" ... The models are in torch_models.py. Gradients are clipped to norm 1,
the optimizer is fused AdamW. Everything that can be prepared is prepared before the clock starts. Every variant prints one line of
JSON; `samples` of it is what --samples says the batches hold: tokens without padding, images, windows.

--check prints the loss of the first batch and the norm of its gradient instead, in float32 without dropout.
--text FILE trains a language model on its characters instead, batches drawn as nanoGPT draws them, and times --updates updates as a
whole, compilation included.
"""

import argparse
import itertools
import json
import math
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from freed_memory import keep_freed_memory
from torch_models import open_model

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def read_batches(path, model):
    batches = {}
    for name, tensor in load_file(path).items():
        index, _, key = name.partition(".")
        batches.setdefault(int(index), {})[key] = tensor
    return [model.prepare(batches[index]) for index in sorted(batches)]


class Training:
    def __init__(self, mode, dtype, options):
        torch.manual_seed(0)
        torch.compiler.reset()
        self.model = open_model(options.model, without_dropout=options.check)
        self.weights = [p for p in self.model.parameters() if p.requires_grad]
        groups = [{"params": [p for p in self.weights if p.dim() > 1], "weight_decay": options.weight_decay},
                  {"params": [p for p in self.weights if p.dim() <= 1], "weight_decay": 0.0}]  # fmt: skip
        self.optimizer = torch.optim.AdamW(groups, lr=options.lr, betas=(0.9, options.beta2), eps=1e-8, fused=True)
        self.forward = self.model if mode == "eager" else torch.compile(self.model, dynamic=self.model.dynamic)
        self.low = DTYPES[dtype] == torch.bfloat16

    def gradients(self, arguments):
        """The loss, and the norm of the gradient before it is clipped."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.low):
            loss = self.forward(*arguments)
        loss.backward()
        return loss, torch.nn.utils.clip_grad_norm_(self.weights, 1.0, foreach=True)

    def update(self, arguments):
        loss, _ = self.gradients(arguments)
        self.optimizer.step()
        return loss.item()


def check(options):
    training = Training("eager", "float32", options)
    loss, norm = training.gradients(read_batches(options.batches, training.model)[0])
    print(json.dumps({"loss": loss.item(), "gradient_norm": norm.item()}), flush=True)


def measure(mode, dtype, options):
    """Seconds of every round over the batches, and what the variant has to say of itself."""
    training = Training(mode, dtype, options)
    batches = read_batches(options.batches, training.model)
    first = statistics.mean(training.update(b) for b in batches)  # also compiles, and warms up
    times = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        last = statistics.mean([training.update(b) for b in batches])
        times.append(time.perf_counter() - start)
    if not last < first:
        sys.exit(f"{mode} {dtype}: the loss went from {first:.4f} to {last:.4f}; this is not training")
    middle = statistics.median(times)
    return {"ms_per_update": round(1e3 * middle / len(batches), 3), "best_ms": round(1e3 * min(times) / len(batches), 3),
            "per_s": round(options.samples / middle, 1), "first_loss": round(first, 4), "last_loss": round(last, 4)}  # fmt: skip


def whole(mode, dtype, options):
    """nanoGPT's training of a character model: a random batch an update, warm-up, cosine; the validation at its end is not timed."""
    text = Path(options.text).read_text(encoding="utf-8")
    ids = {c: i for i, c in enumerate(sorted(set(text)))}
    data = np.array([ids[c] for c in text], dtype=np.uint16)
    parts = {"train": data[: int(0.9 * len(data))], "valid": data[int(0.9 * len(data)) :]}
    training = Training(mode, dtype, options)

    def batch(split):
        data, n = parts[split], options.context + 1
        starts = torch.randint(len(data) - n, (options.batch_size,))
        x = torch.stack([torch.from_numpy(data[i : i + n].astype(np.int64)) for i in starts])
        return x[:, :-1].contiguous(), x[:, 1:].flatten()

    warmup, floor = options.warmup, 0.1
    start = time.perf_counter()
    for step in range(1, options.updates + 1):
        done = (step - warmup) / max(1, options.updates - warmup)
        factor = step / warmup if step < warmup else floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        for group in training.optimizer.param_groups:
            group["lr"] = options.lr * factor
        training.update(batch("train"))
    seconds = time.perf_counter() - start
    training.model.eval()
    with torch.no_grad():
        valid = statistics.mean(training.model(*batch("valid")).item() for _ in range(200))
    return {"seconds": round(seconds, 2), "ms_per_update": round(1e3 * seconds / options.updates, 3), "valid_loss": round(valid, 4)}


def main():
    modes = ("eager", "compile")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of config.json and model.safetensors")
    parser.add_argument("--batches", help="safetensors file")
    parser.add_argument("--check", action="store_true", help="print the loss and the gradient's norm of the first batch")
    parser.add_argument("--text", help="train on this text as a whole instead")
    parser.add_argument("--threads", type=int, nargs="+", default=[2], help="how many; several: one after the other")
    parser.add_argument("--modes", nargs="+", choices=modes, default=list(modes))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--rounds", type=int, default=3, help="passes over the batches; the median counts")
    parser.add_argument("--samples", type=float, default=0.0, help="what all batches hold")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--beta2", type=float, default=0.99)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--updates", type=int, default=2000, help="of --text")
    parser.add_argument("--warmup", type=int, default=100, help="updates over which the learning rate rises, of --text")
    parser.add_argument("--batch-size", type=int, default=12, help="of --text")
    parser.add_argument("--context", type=int, default=64, help="of --text")
    options = parser.parse_args()
    if not options.text and not options.batches:
        parser.error("either --batches or --text is needed")
    keep_freed_memory()
    torch.set_num_threads(options.threads[0])
    if options.check:
        return check(options)
    for threads, mode, dtype in itertools.product(options.threads, options.modes, options.dtypes):
        torch.set_num_threads(threads)
        result = whole(mode, dtype, options) if options.text else measure(mode, dtype, options)
        print(json.dumps({"peer": "pytorch", "version": torch.__version__, "mode": mode, "dtype": dtype, "threads": threads, **result}),
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
