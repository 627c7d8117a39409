#!/usr/bin/env python3
"""Makes the cases of this folder: small tokenizers in the styles of the families, and what Hugging Face tokenizers gives.

    python3 make.py [FOLDER [TEXTS [SEED]]]        (needs: pip install tokenizers sentencepiece)

Each NAME.json is a tokenizer. cases.json has the texts and, for every NAME, the ids, tokens, places (in bytes) and decoded texts;
and pairs of texts. More texts and other seeds than those kept here must pass as well: point TRANSFORMER_GOLDEN at the folder
above FOLDER.
"""
import base64, io, json, os, random, sys, tempfile, unicodedata
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
import sentencepiece

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
count = int(sys.argv[2]) if len(sys.argv) > 2 else 18
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
random.seed(seed)

CORPUS = """The quick brown fox jumps over the lazy dog. I'll say it again: don't, we've, they're, she's HERE, WASN'T it?
Transformers read tokens; tokens are pieces of words, and 12345 or 3.14159 are numbers like any other 2024-05-17.
나는 학교에 간다. 고양이가 쥐를 잡았다. 쥐가 고양이를 잡았다! 나는 Transformer를 공부한다.
Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche. Größe über alles, naïve café déjà vu.
Съешь же ещё этих мягких французских булок, да выпей чаю. Η γρήγορη αλεπού πηδάει πάνω από το σκυλί.
我爱北京天安门。日本語のテストです。テキストを分割する。 العربية لغة جميلة  עברית שפה יפה हिन्दी भाषा ไทยภาษา
def f(x):\n\treturn x ** 2 + 1  # comment\n\nif __name__ == "__main__":\n    print(f(3))
https://example.com/path?q=1&x=%20 user@mail.org <b>bold</b> &amp; [x] {y} (z) ~tilde~ ^caret^ \\back\\slash
""".split("\n") * 3

ALPHABETS = ["abcdefghij klmnop qrstuvwxyz", "ABCDEF GHIJ", "0123456789", ".,;:!?'\"-_()[]{}<>/\\@#$%^&*+=|~`", " \t\n\r  ",
             "äöüßéèñçøåÅşğıİĐđ", "абвгдеёжз ЙЦУКЕН", "αβγδεζ ΣΑΩς", "가나다라마 바사아자차 한글 값뷁", "\u1100\u1161\u11a8\u1102\u1175",
             "中文字漢字龜 ㄅㄆ", "ひらがなカタカナー々", "عربيةلغة ءآأ", "עבריתשפה", "हिन्दीभाषा", "ไทยภาษา", "\u0301\u0300\u0323\u0308\u20dd",
             "😀👩\u200d👩\u200d👧🇰🇷👍🏽❤\ufe0f", "ﬁﬀ½Ⅷ①㎏ﾊﾝｶｸＡＢ１２", "\u00a0\u2003\u3000\u2028\u200b\ufeff\u00ad\u180e", "\x00\x01\x07\x1b\x7f\x85\x9f",
             "𝔘𝔫𝔦𝒸𝑜𝒹𝑒𐍈", "“”‘’—–…«»", "▁▁ ▁", "٠١٢٣४५६"]
WORDS = ["the ", " the", "don't", "I'LL", "'s", " '", "Hello", " hello", "나는 ", "<s>", "</s>", "<unk>", "<pad>", "[CLS]", "[SEP]", "[MASK]",
         "[UNK]", "<mask>", " <mask> ", "<|endoftext|>", "<|begin_of_text|>", "<0x41>", "<0xE5>", "##", "ing", "123456", "12 34", "  ", "\n\n", "\r\n",
         "ADDED", "added", " Added ", "WORD", "aWORD", "WORDb", " WORD ", "<left>", "  <left>", "<right>  ", "é", "e\u0301", "한글", "word_with_underscore"]


def text():
    parts = []
    for _ in range(random.randint(1, 9)):
        kind = random.random()
        if kind < 0.35:
            parts.append(random.choice(WORDS))
        elif kind < 0.5:
            words = random.choice(CORPUS).split(" ")
            at = random.randrange(len(words))
            parts.append(" ".join(words[at:at + random.randint(1, 4)]))
        else:
            parts.append("".join(random.choice(random.choice(ALPHABETS) if random.random() < 0.2 else a)
                                 for a in [random.choice(ALPHABETS)] for _ in range(random.randint(1, 6))))
        if random.random() < 0.3:
            parts.append(" ")
    return "".join(parts)


texts = ["", " ", "a", "  leading and   trailing  ", "I'll don't we've it's HELLO 12345 3.14159", "나는 학교에 간다", "emoji 😀👩\u200d👩\u200d👧\u200d👦🇰🇷 한글",
         "naïve café Ångström ﬁ ½ Ⅷ e\u0301 a\u0301\u0323", "中文 日本語 テスト", "<s>hi</s> [CLS] <|endoftext|> <mask> ADDED WORDy WORD <left>x<right>  y"]
while len(texts) < count:
    texts.append(text())
pairs = [[texts[i], texts[-1 - i]] for i in range(4, 9)]


def special(*names):
    return [AddedToken(n, special=True, normalized=False) for n in names]


def bpe(tokenizer, size, names, **more):
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=size, special_tokens=special(*names), show_progress=False, **more))
    return tokenizer


def byte_bpe(pre, size=420, names=("<|endoftext|>",), **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    return bpe(t, size, names, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
made = {}


def gpt2():
    t = byte_bpe(pre_tokenizers.ByteLevel(add_prefix_space=False))
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def llama3():
    t = byte_bpe(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
                 430, ("<|begin_of_text|>", "<|end_of_text|>"), ignore_merges=True)
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", special_tokens=[("<|begin_of_text|>", 0)])])
    return t


def qwen2():
    t = byte_bpe(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    t.normalizer = normalizers.NFC()
    return t


def falcon():
    return byte_bpe(pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
                                             pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]))


def roberta():
    t = byte_bpe(pre_tokenizers.ByteLevel(add_prefix_space=True), 420, ("<s>", "<pad>", "</s>", "<unk>"))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    return t


def llama2(normalizer, pre, strip=True):
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    bpe(t, 700, ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)])
    saved = json.loads(t.to_str())
    saved["added_tokens"] = saved["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(saved))
    t.normalizer, t.pre_tokenizer = normalizer, pre
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return t


def bert(lower):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=380, special_tokens=special("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), show_progress=False))
    t.decoder = decoders.WordPiece()
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)) if lower else processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def charsmap():
    rules = [("ﬁ", "fi"), ("½", "1/2"), ("Ａ", "A"), ("\t", " "), ("\n", " "), ("\u3000", " "), ("\u00a0", " "), ("e\u0301", "é"), ("A\u030a", "Å"), ("\u200b", " "),
             ("\x07", ""), ("㎏", "kg"), ("…", "..."), ("カ\u3099", "ガ")]
    with tempfile.TemporaryDirectory() as d:
        open(d + "/rules.tsv", "w").writelines("%s\t%s\n" % (" ".join("%X" % ord(c) for c in a), " ".join("%X" % ord(c) for c in b)) for a, b in rules)
        open(d + "/text", "w").writelines(line + "\n" for line in CORPUS)
        how = {"normalization_rule_tsv": d + "/rules.tsv"} if folder == os.path.dirname(os.path.abspath(__file__)) else {}
        sentencepiece.SentencePieceTrainer.train(input=d + "/text", model_prefix=d + "/m", vocab_size=300, hard_vocab_limit=False, minloglevel=2, **how)
        data = open(d + "/m.model", "rb").read()
    # ModelProto.normalizer_spec (field 3) . precompiled_charsmap (field 2)
    def fields(b):
        i = 0
        def varint():
            nonlocal i
            v = s = 0
            while True:
                v |= (b[i] & 127) << s
                i += 1
                s += 7
                if b[i - 1] < 128:
                    return v
        while i < len(b):
            key = varint()
            if key & 7 == 2:
                n = varint()
                yield key >> 3, b[i:i + n]
                i += n
            elif key & 7 == 5:
                i += 4
            else:
                varint()
    spec = [v for k, v in fields(data) if k == 3][0]
    return [v for k, v in fields(spec) if k == 2][0]


def unigram(normalizer, pre, decoder, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=320, special_tokens=special("<pad>", "</s>", "<unk>"), unk_token="<unk>", show_progress=False))
    saved = json.loads(t.to_str())
    if byte_fallback:
        saved["model"]["byte_fallback"] = True
        saved["model"]["vocab"] += [["<0x%02X>" % b, -20.0] for b in range(256)]
    t = Tokenizer.from_str(json.dumps(saved))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer, t.decoder = pre, decoder
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return t


def t5():
    return unigram(normalizers.Sequence([normalizers.Precompiled(charsmap()), normalizers.Replace(Regex(" {2,}"), " ")]),
                   pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]), decoders.Metaspace())


def suffix_bpe():
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=False))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True)])
    t.decoder = decoders.BPEDecoder("</w>")
    return bpe(t, 300, ["<unk>", "<|endoftext|>"], end_of_word_suffix="</w>", limit_alphabet=60)


def prefix_bpe():
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)])
    t.decoder = decoders.WordPiece("##", cleanup=False)
    return bpe(t, 300, ["<unk>"], continuing_subword_prefix="##", limit_alphabet=80)


def cut(normalizer, pre, unk="<unk>"):
    """Every piece is unknown: the places show where text is cut."""
    t = Tokenizer(models.WordLevel({unk: 0, "the": 1, "나는": 2}, unk_token=unk))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.add_tokens([AddedToken("ADDED", normalized=True), AddedToken("WORD", single_word=True), AddedToken("<left>", lstrip=True),
                  AddedToken("<right>", rstrip=True, normalized=False), AddedToken("<both>", lstrip=True, rstrip=True)])
    t.add_special_tokens(special("[CLS]", "</s>"))
    return t


def all_made():
    yield "gpt2", gpt2()
    yield "llama3", llama3()
    yield "qwen2", qwen2()
    yield "falcon", falcon()
    yield "roberta", roberta()
    yield "llama2", llama2(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None)
    yield "mistral", llama2(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False))
    yield "bert-uncased", bert(True)
    yield "bert-cased", bert(False)
    yield "t5", t5()
    yield "unigram-bytes", unigram(normalizers.NFKC(), pre_tokenizers.Metaspace(prepend_scheme="never"), decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")]), True)
    yield "unigram-first", unigram(normalizers.Nmt(), pre_tokenizers.Metaspace(prepend_scheme="first"), decoders.Metaspace(prepend_scheme="first"))
    yield "bpe-suffix", suffix_bpe()
    yield "bpe-prefix", prefix_bpe()
    yield "cut-lower", cut(normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()]), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]))
    yield "cut-delimiter", cut(normalizers.Strip(left=True, right=False), pre_tokenizers.CharDelimiterSplit("e"))
    for behavior in ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]:
        for invert in [False, True]:
            yield "cut-%s%s" % (behavior, "-invert" if invert else ""), cut(None, pre_tokenizers.Split(Regex(r"\w\s?"), behavior, invert))
    yield "cut-string", cut(normalizers.Replace("e", "EE"), pre_tokenizers.Split("E", "merged_with_next"))
    yield "cut-bytes", cut(normalizers.Sequence([normalizers.NFKC(), normalizers.ByteLevel()]), None)


def byte_places(text, places):
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return [x for a, b in places for x in (at[a], at[b])]


cases = {"texts": texts, "pairs": pairs, "tokenizers": {}}
for name, tokenizer in all_made():
    tokenizer.no_padding(), tokenizer.no_truncation()
    saved = json.loads(tokenizer.to_str())
    json.dump(saved, open(os.path.join(folder, name + ".json"), "w"), ensure_ascii=False, separators=(",", ":"))
    rows = []
    for t in texts[:count if count > 100 or not name.startswith("cut-") else 12]:
        e = tokenizer.encode(t)
        row = {"ids": e.ids, "places": byte_places(t, e.offsets), "decoded": tokenizer.decode(e.ids)}
        if e.tokens != [tokenizer.id_to_token(i) for i in e.ids]:
            row["tokens"] = e.tokens
        if (all_tokens := tokenizer.decode(e.ids, skip_special_tokens=False)) != row["decoded"]:
            row["all"] = all_tokens
        # Hugging Face loses its place when Precompiled drops a character at the beginning, or two in a row.
        if name == "t5" and any(unicodedata.category(c) == "Cc" for c in t):
            del row["places"]
        rows.append(row)
    two = []
    for a, b in pairs:
        e = tokenizer.encode(a, b)
        two.append({"ids": e.ids, "types": e.type_ids, "added": e.special_tokens_mask, "plain": tokenizer.encode(a, b, add_special_tokens=False).ids})
    cases["tokenizers"][name] = {"texts": rows, "pairs": two}
json.dump(cases, open(os.path.join(folder, "cases.json"), "w"), ensure_ascii=False, separators=(",", ":"))
