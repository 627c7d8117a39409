#!/usr/bin/env python3
"""Opens folders with Hugging Face and compares them with others of the same names, tensor by tensor, and in what they compute.
usage: check_folders.py ORIGINALS COPIES    (needs torch, transformers)"""
import json
import os
import sys

import torch
import transformers as hf


def open_folder(path):
    architecture = json.load(open(os.path.join(path, "config.json")))["architectures"][0]
    model, info = getattr(hf, architecture).from_pretrained(path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
    return model.eval()


originals, copies = sys.argv[1:3]
same = 0
for name in sorted(os.listdir(copies)):
    a, b = open_folder(os.path.join(originals, name)), open_folder(os.path.join(copies, name))
    x, y = a.state_dict(), b.state_dict()
    assert x.keys() == y.keys(), name
    assert a.config.to_dict() | {"_name_or_path": ""} == b.config.to_dict() | {"_name_or_path": ""}, name
    for key in x:
        assert torch.equal(x[key], y[key]), f"{name}: {key}"
    same += 1
print(f"{same} folders: the same tensors bit for bit, the same config")
