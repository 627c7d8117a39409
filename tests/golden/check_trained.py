#!/usr/bin/env python3
"""Opens folders that `transformer train` left with Hugging Face: model, tokenizer or image processor. Both sides compute the same
inputs, texts and images among them, and the largest difference of their outputs is printed.
usage: check_trained.py TRANSFORMER FOLDER...    (needs torch, transformers, pillow)"""
import json
import os
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers as hf
from PIL import Image
from safetensors.torch import load_file, save_file

LINES = ["mr jordan austin slept in paris", "lamp on bell on lamp off", "three bread two milk", "a"]
TEXT = "Good morrow , sir ; what news ?\n나는 ( [ { } ] )\n▁a <0x41>  b"


def ours(*arguments, text=None):
    return subprocess.run([sys.argv[1], *arguments], check=True, stdout=subprocess.PIPE, text=True, input=text).stdout


def same_labels(folder, model, tokenizer):
    """classify gives the labels that Hugging Face does: classes, several labels, numbers, or tags of words. A word on what was compared."""
    architecture = model.config.architectures[0]
    if not architecture.endswith(("ForSequenceClassification", "ForTokenClassification")):
        return ""
    names = model.config.id2label
    for line in LINES:
        answer = json.loads(ours("classify", folder, "--json", "--top-k", "0", text=line + "\n"))
        if architecture.endswith("ForTokenClassification"):
            words = line.split()
            encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
            p, ids = model(**encoded).logits[0].softmax(-1), encoded.word_ids()
            first = [ids.index(i) for i in range(len(words))]
            assert [w["word"] for w in answer["words"]] == words, answer
            pairs = [({names[i]: v for i, v in enumerate(p[at].tolist())}, w["labels"]) for at, w in zip(first, answer["words"])]
        else:
            z = model(**tokenizer(line, return_tensors="pt")).logits[0]
            kind = model.config.problem_type
            scores = z if kind == "regression" else z.sigmoid() if kind == "multi_label_classification" else z.softmax(-1)
            pairs = [({names[i]: v for i, v in enumerate(scores.tolist())}, answer["labels"])]
        for theirs, mine in pairs:
            assert len(mine) == len(theirs), (theirs, mine)
            for label in mine:
                assert abs(label["score"] - theirs[label["label"]]) < 1e-5, f"{folder}: {line!r}: {label}, Hugging Face has {theirs}"
    return ", same labels"


def inputs_of(folder, model, scratch):
    """Inputs for the model, and a word on what else was compared."""
    torch.manual_seed(1)
    if model.main_input_name == "input_ids":
        tokenizer = hf.AutoTokenizer.from_pretrained(folder)
        ids = tokenizer(TEXT)["input_ids"]
        for line in TEXT.split("\n"):
            theirs = tokenizer(line)["input_ids"]
            mine = [int(i) for i in ours("tokenize", folder, "--ids", text=line + "\n").split()]
            assert mine == theirs, f"{folder}: {line!r}: {mine}, Hugging Face has {theirs}"
        return {"input_ids": torch.tensor([ids])}, "same tokens" + same_labels(folder, model, tokenizer)
    if model.main_input_name == "pixel_values":
        processor = hf.AutoImageProcessor.from_pretrained(folder, backend="pil")
        size, channels = model.config.image_size, model.config.num_channels
        shape = (size, size, channels) if channels > 1 else (size, size)
        picture = Image.fromarray(numpy.random.default_rng(1).integers(0, 256, shape, dtype=numpy.uint8))
        path = os.path.join(scratch, "picture.png")
        picture.save(path)
        array = numpy.asarray(picture).reshape(size, size, channels)
        pixels = processor(array, return_tensors="pt", input_data_format="channels_last")["pixel_values"]
        with torch.no_grad():
            p, label = model(pixels).logits.softmax(-1).max(-1)
        name, theirs = model.config.id2label[label.item()], p.item()
        answer = ours("classify", folder, "--image", path).split("\t")
        assert name in answer[1] and abs(float(answer[2]) - theirs) < 1e-4, f"{folder}: {answer}, Hugging Face has {name} {theirs}"
        return {"pixel_values": pixels}, "same answer for a picture"
    series = torch.randn(3, model.config.context_length, model.config.num_input_channels).cumsum(1)
    return {"past_values": series}, "series"


for folder in sys.argv[2:]:
    architecture = json.load(open(os.path.join(folder, "config.json")))["architectures"][0]
    model, info = getattr(hf, architecture).from_pretrained(folder, output_loading_info=True)
    unexpected = [k for k in info["unexpected_keys"] if not k.startswith("head.quantile_projections.")]  # ours; docs/forecasting.md
    assert not info["missing_keys"] and not unexpected and not info["mismatched_keys"], info
    model.eval()
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        inputs, also = inputs_of(folder, model, scratch)
        save_file(inputs, os.path.join(scratch, "in.safetensors"))
        ours("run", folder, "--inputs", os.path.join(scratch, "in.safetensors"), "--outputs", os.path.join(scratch, "out.safetensors"))
        mine = load_file(os.path.join(scratch, "out.safetensors"))
        theirs = {k: v for k, v in model(**inputs).items() if isinstance(v, torch.Tensor) and k in mine}
        assert theirs, f"{folder}: no output of the same name among {sorted(mine)}"
        worst = max((mine[k].float() - v).abs().max().item() for k, v in theirs.items())
        assert worst < (1e-5 if "Classification" in architecture else 1e-3), f"{folder}: {worst}"
        print(f"{architecture}: {also}, {', '.join(theirs)} differ by {worst:.1e}")
