#!/usr/bin/env python3
"""Opens translators that `transformer train translate` left with Hugging Face and with CTranslate2, as they are: tokens, logits, and what
greedy search makes of the lines of a file are compared with ours.
usage: check_translators.py TRANSFORMER SOURCES FOLDER...    (needs torch, transformers, ctranslate2, sentencepiece)"""
import os
import subprocess
import sys
import tempfile

import ctranslate2
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

program, sources, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
lines = [line.rstrip("\n") for line in open(sources, encoding="utf-8")][:200]
LONGEST = 200


def ours(*arguments, text=None):
    return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True, input=text).stdout


def translated(folder):
    limits = ["--max-length-a", "0", "--max-length-b", str(LONGEST)]
    return ours("translate", folder, "--beam", "1", "--allow-unk", *limits, text="\n".join(lines) + "\n").split("\n")[:-1]


def logits_differ(model, folder, batch, scratch):
    """The largest difference on padded sources and the targets that the model itself writes."""
    with torch.no_grad():
        targets = model.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=30)[:, :-1]
        inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"], "decoder_input_ids": targets}
        theirs = model(**inputs).logits
    save_file({k: v.contiguous() for k, v in inputs.items()}, os.path.join(scratch, "in.safetensors"))
    ours("run", folder, "--inputs", os.path.join(scratch, "in.safetensors"), "--outputs", os.path.join(scratch, "out.safetensors"))
    mine = load_file(os.path.join(scratch, "out.safetensors"))["logits"]
    return (mine - theirs).abs().max().item(), theirs.abs().max().item()


failed = False
for folder in folders:
    model, info = hf.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    model.eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    ids = [tokenizer(line)["input_ids"] for line in lines]
    mine = [[int(i) for i in row.split()] for row in ours("tokenize", folder, "--ids", text="\n".join(lines) + "\n").split("\n")[:-1]]
    same_tokens = sum(a == b for a, b in zip(ids, mine))
    with tempfile.TemporaryDirectory() as scratch:
        difference, largest = logits_differ(model, folder, tokenizer(lines[:16], return_tensors="pt", padding=True), scratch)
        converted = os.path.join(scratch, "ct2")
        subprocess.run(["ct2-transformers-converter", "--model", folder, "--output_dir", converted], check=True,
                       env={**os.environ, "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]})
        translator = ctranslate2.Translator(converted, device="cpu", compute_type="float32")
        found = translator.translate_batch([tokenizer.convert_ids_to_tokens(i) for i in ids], beam_size=1, max_decoding_length=LONGEST)
        theirs = [tokenizer.decode(tokenizer.convert_tokens_to_ids(f.hypotheses[0]), skip_special_tokens=True) for f in found]
    answers = translated(folder)
    same = sum(a.strip() == b.strip() for a, b in zip(answers, theirs))
    print(f"{type(model).__name__}, {type(tokenizer).__name__}: {same_tokens} of {len(lines)} lines have the same tokens, logits differ by "
          f"{difference:.1e} (largest {largest:.1f}); CTranslate2 {ctranslate2.__version__}: {same} of {len(lines)} greedy translations equal, "
          f"{len(set(answers))} different ones", flush=True)
    for line, a, b in [t for t in zip(lines, answers, theirs) if t[1].strip() != t[2].strip()][:5]:
        print(f"  {line}\n    ours {a}\n    ct2  {b}")
    failed |= same < len(lines) or same_tokens < len(lines) or not difference <= 1e-5 * max(1.0, largest)
sys.exit(failed)
