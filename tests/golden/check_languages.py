#!/usr/bin/env python3
"""Models for many languages with random weights, M2M100, NLLB, mBART and mBART-50, each with a tokenizer trained on the lines of two files
and in the files that published models have: tokens and greedy translations of ours beside those of Hugging Face.
usage: check_languages.py TRANSFORMER SOURCES TARGETS SCRATCH    (needs torch, transformers, sentencepiece, protobuf)"""
import json
import os
import shutil
import subprocess
import sys

import sentencepiece
import torch
import transformers as hf

program, sources, targets, scratch = sys.argv[1:5]
lines = [line.rstrip("\n") for line in open(sources, encoding="utf-8")][:40]


def ours(*arguments, text=None):
    return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True, input=text).stdout


def pieces(path, kind):
    sentencepiece.SentencePieceTrainer.train(input=[sources, targets], model_prefix=path[:-len(".model")], vocab_size=2000, model_type=kind,
                                             unk_id=0, bos_id=1, eos_id=2, pad_id=-1, minloglevel=2)


SIZES = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
             decoder_ffn_dim=48, max_position_embeddings=128, init_std=0.3)
CASES = {
    "m2m_100": ("M2M100", "M2M100Tokenizer", "bpe", "en", "ko"),
    "nllb": ("M2M100", "NllbTokenizer", "bpe", "eng_Latn", "kor_Hang"),
    "mbart": ("MBart", "MBartTokenizer", "unigram", "en_XX", "ko_KR"),
    "mbart-50": ("MBart", "MBart50Tokenizer", "unigram", "en_XX", "ko_KR"),
}

wrong = 0
for name, (family, cls, kind, source, target) in CASES.items():
    torch.manual_seed(3)
    folder = os.path.join(scratch, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    model_file = os.path.join(folder, "sentencepiece.bpe.model")
    pieces(model_file, kind)
    os.remove(model_file[:-len(".model")] + ".vocab")
    if name == "m2m_100":
        spm = sentencepiece.SentencePieceProcessor(model_file=model_file)
        ids = {t: i for i, t in enumerate(["<s>", "<pad>", "</s>", "<unk>"])}
        for i in range(3, spm.get_piece_size()):
            ids[spm.id_to_piece(i)] = len(ids)
        json.dump(ids, open(os.path.join(folder, "vocab.json"), "w"))
        tokenizer = hf.M2M100Tokenizer(os.path.join(folder, "vocab.json"), model_file)
        size = len(ids) + 100 + 8
    else:
        json.dump({"tokenizer_class": cls}, open(os.path.join(folder, "tokenizer_config.json"), "w"))
        tokenizer = getattr(hf, cls).from_pretrained(folder)
        alone = target in tokenizer.get_vocab()  # NLLB's has its languages from tokenizer.json only
        if not alone:
            tokenizer.add_special_tokens({"additional_special_tokens": [source, target]})
        size = max(tokenizer.get_vocab().values()) + 1
    config = getattr(hf, family + "Config")(**SIZES, vocab_size=size)
    model = getattr(hf, family + "ForConditionalGeneration")(config).eval()
    model.save_pretrained(folder)
    tokenizer.src_lang = source
    for files in ("older files", "tokenizer.json") if name == "m2m_100" or alone else ("tokenizer.json",):
        if files == "tokenizer.json":
            if name == "m2m_100":
                continue
            tokenizer.save_pretrained(folder)
            os.remove(model_file)
        ids = [tokenizer(line)["input_ids"] for line in lines]
        language = tokenizer.get_lang_id(target) if name == "m2m_100" else tokenizer.convert_tokens_to_ids(target)
        start = {"decoder_start_token_id": language} if name == "mbart" else {"decoder_start_token_id": 2, "forced_bos_token_id": language}
        theirs = []
        for row in ids:
            with torch.no_grad():
                out = model.generate(torch.tensor([row]), num_beams=1, do_sample=False, max_new_tokens=24, forced_eos_token_id=None, **start)[0]
            theirs.append(tokenizer.decode(out, skip_special_tokens=True).removeprefix(f"__{target}__"))
        both = ["--source-lang", source, "--target-lang", target]
        mine = ours("translate", folder, *both, "--beam", "1", "--allow-unk", "--max-length-a", "0", "--max-length-b", "60",
                    text="\n".join(lines) + "\n").split("\n")[:-1]
        # Random models do not end: what both have is compared.
        same = sum(bool(b.strip()) and a.strip().startswith(b.strip()[:30]) for a, b in zip(mine, theirs))
        shown = [[int(i) for i in row.split()] for row in ours("tokenize", folder, "--ids", text="\n".join(lines) + "\n").split("\n")[:-1]]
        same_tokens = sum(a == b for a, b in zip(shown, ids))  # English is the source when nothing is said
        print(f"{name}, {files}: {same_tokens} of {len(lines)} lines have the same tokens, {same} the same translation", flush=True)
        for a, b in [t for t in zip(shown, ids) if t[0] != t[1]][:1] + [t for t in zip(mine, theirs) if not t[0].strip().startswith(t[1].strip()[:30])][:1]:
            print("   ours ", a, "\n   theirs", b)
        wrong += same < len(lines) or same_tokens < len(lines)
sys.exit(wrong > 0)
