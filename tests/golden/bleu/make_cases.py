#!/usr/bin/env python3
"""Writes cases.json: what sacreBLEU gives for made-up sentences, for every tokenizer and option.

  python3 -m venv venv && venv/bin/pip install sacrebleu && venv/bin/python make_cases.py
"""
import itertools
import json
import pathlib

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

# name: (hypotheses, streams of references)
SETS = {
    "english": (
        ["The cat sat on the mat.", "It costs $1,234.56, not 1.234,56!", "Well-known e-mails arrive at 10-12 o'clock .", "He said: \"I'm here\" (twice).",
         "The quick brown fox jumps over the lazy dog"],
        [["The cat is sitting on the mat.", "It costs $1,234.50, not 1.234,56.", "Well-known emails arrive at 10-12 o'clock.", "He said \"I am here\" (twice)!",
          "A quick brown fox jumped over the lazy dog."]],
    ),
    "german": (
        ["Ein Mann mit Hut fährt über die Straße.", "Zwei Hunde spielen im Schnee , nicht wahr ?", "„Guten Tag“, sagte sie – und ging.", "GRÜSSE AUS ÖSTERREICH"],
        [["Ein Mann mit einem Hut fährt über die Straße.", "Zwei Hunde spielen im Schnee, nicht wahr?", "„Guten Morgen“, sagte sie – und blieb.", "Grüße aus Österreich"]],
    ),
    "korean": (
        ["나는 학교에 간다.", "고양이가 쥐를 잡았다", "쥐가 고양이를 잡았다!", "그는 3,500원을 냈다; 나는 ₩5,000을 냈다。", "“안녕하세요?”라고 말했다…", "나는 Transformer를 공부한다."],
        [["나는 어제 학교에 갔다.", "쥐가 고양이를 잡았다", "쥐가 고양이를 잡았다!", "그는 3,500원을 냈고 나는 ₩6,000을 냈다。", "“안녕히 계세요.”라고 말했다…", "나는 Transformer를 공부한다."]],
    ),
    "marks": (
        ["&quot;Tom &amp; Jerry&quot; &lt;b&gt;x&lt;/b&gt; &amp;lt; &amp;quot; &apos;s", "<skipped>price: €5.00/kg, £3.20 ¥100 ₩1,000 50% + 7°C = ok~", "a..b,,c.,d 1.2.3 .5 5. ,5 5, x.1 1.x 1-2 a-1 1-a --",
         "‘single’ «guillemets» ‹x› 「引用」 。、！？ 1、2 ٣٫٤ Ⅷ. ½, ²!", "{braces} [brackets] `ticks` ^caret| back\\slash under_score *star* #hash @at ~tilde!", "no\u00a0break\u3000wide\u2009thin\u200bzero\u0085next\u001csep\ttab"],
        [["\"Tom & Jerry\" <b>x</b> &lt; &quot; 's", "price: € 5.00/kg, £3.20 ¥ 100 ₩1000 50 % + 7 °C = OK ~", "a. .b, ,c. ,d 1.2.3 .5 5 . , 5 5 , x. 1 1. x 1 - 2 a-1 1 - a - -",
          "'single' «guillemets» ‹ x › 「 引用 」 。 、 ！ ？ 1、2 ٣٫٤ Ⅷ . ½ , ² !", "{ braces } [ brackets ] `ticks` ^ caret | back \\ slash under _ score * star * # hash @ at ~ tilde !", "no break wide thin\u200bzero next sep tab"]],
    ),
    "case": (
        ["İSTANBUL Σίσυφος ΟΔΟΣ ΣΑΣ Σ", "THE NEW YORK TIMES", "straße STRASSE ẞ ǅ Ⅳ Ⓐ", "Ωmega ÅNGSTRÖM K Å", "ΑΣ. ΑΣΑ ΑΣ' Σ' 'Σ ͅΣ"],
        [["i̇stanbul σίσυφος οδος σας σ", "the new york times", "Straße strasse ß ǆ ⅳ ⓐ", "ωmega ångström k å", "ας. ασα ας' σ' 'ς ͅσ"]],
    ),
    "empty": (
        ["", "", "a b c d e", "   ", "\t\n"],
        [["a b c d", "", "", "x", " "]],
    ),
    "all empty": (["", "  ", ""], [["one", "two words", "and three words"]]),
    "nothing at all": (["", ""], [["", ""]]),
    "one word": (["yes", "no", "maybe", "네"], [["yes", "yes", "perhaps", "네."]]),
    "no match": (["alpha beta gamma", "delta"], [["one two three four", "five six"]]),
    "short": (["the house", "a cat"], [["the house", "a cat"]]),
    "bigrams only": (["the big house is red", "we went home"], [["red is the big car", "home we went"]]),
    "equal": (["Exactly the same, word for word.", "나는 고양이를 사랑한다."], [["Exactly the same, word for word.", "나는 고양이를 사랑한다."]]),
    "too long": (["this hypothesis is very much longer than what the reference says , far too long"], [["this is short"]]),
    "too short": (["this is"], [["this is what the longer reference says, and it goes on and on."]]),
    "several references": (
        ["The dog bit the man.", "The man was bitten, unexpectedly.", "the the the the the the the", "", "돈을 좋아한다"],
        [["The dog bit the man.", "It was not unexpected.", "the cat is on the mat", "empty here", "나는 돈을 좋아한다"],
         ["The dog had bit the man.", "No one was surprised.", "there is a cat on the mat", "", "난 돈을 좋아한다"],
         ["A dog bit him", "The man had just been bitten by it, which nobody had expected.", "the the cat", "nothing", "나는 돈이 좋다"]],
    ),
    "newlines": (["end-\nof line\n", "two\nlines here  ", "trailing-\n"], [["endof line", "two lines here", "trailing-"]]),
}

SMOOTHING = [("exp", None), ("floor", None), ("floor", 0.01), ("add-k", None), ("add-k", 0.5), ("none", None)]


def digits(value):
    return round(value, 8)


def own_fields(signature):  # without the version
    return str(signature).rsplit("|", 1)[0]


def sentences(metric, hypotheses, references):
    return [digits(metric.sentence_score(h, r).score) for h, *r in zip(hypotheses, *references)]


def bleu_scores(hypotheses, references):
    for tokenize, lowercase, (method, value), effective in itertools.product(["13a", "none", "char", "intl"], [False, True], SMOOTHING, [False, True]):
        if lowercase and method != "exp":
            continue
        options = dict(tokenize=tokenize, lowercase=lowercase, smooth_method=method, smooth_value=value, effective_order=effective)
        metric = BLEU(force=True, **options)
        s = metric.corpus_score(hypotheses, references)
        yield {
            "options": {k: v for k, v in options.items() if v is not None},
            "score": digits(s.score),
            "precisions": [digits(p) for p in s.precisions],
            "bp": digits(s.bp),
            "lengths": [s.sys_len, s.ref_len],
            "signature": own_fields(metric.get_signature()),
            **({"line": s.format().removeprefix("BLEU = ")} if method == "exp" and not effective else {}),
            **({"sentences": sentences(metric, hypotheses, references)} if method == "exp" and effective else {}),
        }


def chrf_scores(hypotheses, references):
    settings = itertools.product([(6, 0, 2), (6, 2, 2), (4, 1, 3)], [False, True], [False, True], [False, True])
    for (char_order, word_order, beta), lowercase, whitespace, eps in settings:
        metric = CHRF(char_order, word_order, beta, lowercase, whitespace, eps)
        s = metric.corpus_score(hypotheses, references)
        yield {
            "options": dict(char_order=char_order, word_order=word_order, beta=beta, lowercase=lowercase, whitespace=whitespace, effective_order=not eps),
            "score": digits(s.score),
            "signature": own_fields(metric.get_signature()),
            "name": s.name,
            **({"sentences": sentences(metric, hypotheses, references)} if not eps else {}),
        }


def tokens(lines):
    out = {}
    for tokenize, lowercase in itertools.product(["13a", "none", "char", "intl"], [False, True]):
        metric = BLEU(tokenize=tokenize, lowercase=lowercase)
        out[tokenize + ("-lc" if lowercase else "")] = [metric._preprocess_segment(line).split() for line in lines]
    return out


def write(path):
    def compact(value):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    with open(path, "w", encoding="utf-8") as out:
        out.write('{"sacrebleu":%s,"sets":[\n' % compact(sacrebleu.__version__))
        for i, (name, (hypotheses, references)) in enumerate(SETS.items()):
            out.write('{"name":%s,"hypotheses":%s,"references":%s,\n' % (compact(name), compact(hypotheses), compact(references)))
            out.write('"tokens":%s,\n' % compact(tokens(hypotheses)))
            for key, scores in (("bleu", bleu_scores), ("chrf", chrf_scores)):
                out.write('"%s":[\n%s]' % (key, ",\n".join(compact(s) for s in scores(hypotheses, references))))
                out.write(",\n" if key == "bleu" else "}%s\n" % ("," if i + 1 < len(SETS) else ""))
        out.write("]}\n")


if __name__ == "__main__":
    write(pathlib.Path(__file__).with_name("cases.json"))
