#!/usr/bin/env python3
"""Times generation with Hugging Face Transformers on a GPU (random weights, bfloat16, eager): the peer of `transformer_bench cuda generate`.

Each work prints one line of JSON; tokens_per_s counts the tokens of the sequences that are given, the median of --rounds rounds after one
that warms up.
"""

import argparse
import json
import statistics
import time

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MarianConfig, MarianMTModel

transformers.logging.set_verbosity_error()


def gpt2():
    return GPT2LMHeadModel(GPT2Config())


def marian():
    return MarianMTModel(MarianConfig(
        vocab_size=58101, decoder_vocab_size=58101, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="swish", max_position_embeddings=512,
        pad_token_id=58100, eos_token_id=0, bos_token_id=None, decoder_start_token_id=58100, forced_eos_token_id=None,
        scale_embedding=True))


def llama():
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4,
        max_position_embeddings=2048))


def seconds(run, rounds):
    times = []
    for _ in range(rounds + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--large", action="store_true", help="LLaMA 1.1B too")
    options = arguments.parse_args()
    torch.manual_seed(1)
    works = [("GPT-2 124M, 1 sequence", gpt2, 1, 16, 256, 1), ("GPT-2 124M, 64 sequences", gpt2, 64, 16, 256, 1),
             ("Marian base, beam 4, 1 sentence", marian, 1, 30, 64, 4), ("Marian base, beam 4, 64 sentences", marian, 64, 30, 64, 4)]
    if options.large:
        works.append(("LLaMA 1.1B, 1 sequence", llama, 1, 16, 128, 1))
    made = {}
    for name, make, sequences, prompt, tokens, beams in works:
        if make not in made:
            made = {make: make().cuda().bfloat16().eval()}
        ids = torch.randint(2, 30000, (sequences, prompt)).cuda()
        settings = {"max_new_tokens": tokens, "min_new_tokens": tokens, "num_beams": beams, "do_sample": False}
        if make is not marian:
            settings["pad_token_id"] = 0
        with torch.inference_mode():
            took = seconds(lambda: made[make].generate(ids, attention_mask=torch.ones_like(ids), **settings), options.rounds)
        print(json.dumps({"peer": "transformers", "version": transformers.__version__, "torch": torch.__version__, "work": name,
                          "tokens_per_s": sequences * tokens / took}), flush=True)


if __name__ == "__main__":
    main()
