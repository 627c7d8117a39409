#!/usr/bin/env python3
"""figures.py NAME REPORT.json [BESIDE.json]: lines of notes (see results.py) of what transformer_bench wrote with --json: the base step, GPT-2
opened and read by (decode), or the rows of `scaling`. BESIDE: another report of the same rows, as whose share of the speed they are given."""

import json
import sys


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def lines(report, beside):
    for row in report.get("rows", []):
        text = f"{row['work']} {row['precision']}, {row['threads']} threads: {row['ms']:.2f} ms, {row['per_s']:.0f}/s"
        if "peer_per_s" in row:
            text += f", PyTorch {row['peer_per_s']:.0f}/s ({row['per_s'] / row['peer_per_s']:.2f}x)"
        for other in beside.get("rows", []):
            if all(other[key] == row[key] for key in ("work", "precision", "threads")):
                text += f", {100 * row['per_s'] / other['per_s']:.0f} % of the speed beside it"
        yield text + f"; {row['regions']:.0f} regions of {row['mean']:.1f} threads, {row['resident'] / 1e6:.0f} MB resident"
    for precision in ("float32", "bfloat16"):
        of = report.get(precision)
        if of is None:
            continue
        if "of_matmul" in of:
            text = (f"base {precision}, {report['threads']} threads: {of['ms_per_step']:.1f} ms, {100 * of['of_matmul']:.1f} % of matmul "
                    f"({of['matmul_flops_per_s'] / 1e9:.0f} GFLOP/s)")
            for peer in of["peers"]:
                text += f", PyTorch {peer['version']} {peer['mode']} {peer['ms_per_step']:.1f} ms ({peer['speedup']:.2f}x)"
            yield text + f"; resident {of['memory']['resident'] / 1e6:.0f} MB of {of['memory']['needed'] / 1e6:.0f} needed"
        else:
            yield (f"GPT-2 {precision}, {report['threads']} threads: {of['tokens_per_s']:.1f} tokens/s written, "
                   f"{100 * of['of_bandwidth']:.1f} % of memory ({of['bandwidth_bytes_per_s'] / 1e9:.1f} GB/s); "
                   f"{of['prefill_tokens_per_s']:.0f} tokens/s read, {100 * of['prefill_of_matmul']:.1f} % of matmul")


name, report = sys.argv[1], load(sys.argv[2])
for line in lines(report, load(sys.argv[3]) if len(sys.argv) > 3 else {}):
    print(f"{name}\t{line}")
