// The files that Hugging Face folders have beside or instead of tokenizer.json, and files that are damaged or hostile.
#include <thread>

#include "io/shared/json.h"
#include "io/shared/read_file.h"
#include "io/shared/utf8.h"
#include "support/op_check.h"
#include "support/text_files.h"
#include "transformer/core/random.h"
#include "transformer/tokenizers/tokenizer_pair.h"

namespace transformer {
namespace {

using nlohmann::json;
using test::TextFolder;
using Ids = std::vector<std::int32_t>;

std::string golden(const std::string& name) { return read_file(test::case_folder("tokenizers") / name); }

Ids with(Ids ids, Ids before, const Ids& behind) {
  before.insert(before.end(), ids.begin(), ids.end());
  before.insert(before.end(), behind.begin(), behind.end());
  return before;
}

// A small tokenizer.json to be changed by a test.
json words(json changes = json::object()) {
  json file = {{"version", "1.0"},
               {"model", {{"type", "WordLevel"}, {"vocab", {{"<unk>", 0}, {"a", 1}, {"b", 2}, {"<s>", 3}}}, {"unk_token", "<unk>"}}},
               {"pre_tokenizer", {{"type", "Whitespace"}}}};
  file.update(changes);
  return file;
}
TokenizerPtr parsed(const json& file) { return parse_tokenizer(file.dump()); }

TEST(HuggingFaceFiles, T5SpellsItsGapsAndEndsItsTexts) {
  const TextFolder folder;
  folder.write("spiece.model", golden("t5-unigram.model"));
  folder.write("config.json", R"({"model_type": "t5"})");
  const TokenizerPtr plain = load_tokenizer(folder / "spiece.model"), t5 = load_tokenizer(folder.path());
  const std::int32_t eos = plain->id("</s>");
  const std::string text = "A dog runs across the green grass.";
  EXPECT_EQ(t5->encode(text), plain->encode(text));
  EXPECT_EQ(t5->tokenize(text).ids, with(plain->encode(text), {}, {eos}));
  EXPECT_EQ(t5->tokenize(text).added.back(), 1);
  EXPECT_EQ(t5->eos(), eos);
  EXPECT_EQ(t5->size(), plain->size() + 100);
  EXPECT_EQ(t5->id("<extra_id_0>"), plain->size() + 99) << "the first gap has the last id";
  EXPECT_EQ(t5->id("<extra_id_99>"), plain->size());
  const Ids gap = t5->encode("dog <extra_id_1>");
  EXPECT_EQ(gap.back(), t5->id("<extra_id_1>"));
  EXPECT_EQ(t5->decode(t5->tokenize(text).ids), text);

  folder.write("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 3, "add_eos_token": false})");
  const TokenizerPtr other = load_tokenizer(folder.path());
  EXPECT_EQ(other->size(), plain->size() + 3);
  EXPECT_EQ(other->tokenize(text).ids, plain->encode(text));
}

TEST(HuggingFaceFiles, LlamaBeginsItsTexts) {
  const TextFolder folder;
  folder.write("tokenizer.model", golden("llama-bpe.model"));
  const TokenizerPtr plain = load_tokenizer(folder.path());
  EXPECT_EQ(plain->kind(), "sentencepiece") << "no family is named";
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", "bos_token": {"content": "<s>"}, "eos_token": "</s>"})");
  const TokenizerPtr llama = load_tokenizer(folder.path());
  const std::string text = "한글 😀 and <s>";
  EXPECT_EQ(llama->tokenize("나는").ids, with(plain->encode("나는"), {plain->bos()}, {}));
  EXPECT_EQ(llama->bos(), plain->bos());
  EXPECT_EQ(llama->encode(text).back(), plain->bos()) << "as Hugging Face: a special token that is spelled is one";
  EXPECT_EQ(llama->decode(llama->encode("한글 😀")), "한글 😀");
  EXPECT_EQ(llama->encode("<s> a"), with(plain->encode(" a"), {plain->bos()}, {})) << "legacy: a space before each part";
  folder.write("tokenizer_config.json",
               R"({"tokenizer_class": "LlamaTokenizer", "legacy": false, "add_bos_token": false, "add_eos_token": true,
                                            "bos_token": "<s>", "eos_token": "</s>"})");
  const TokenizerPtr later = load_tokenizer(folder.path());
  EXPECT_EQ(later->tokenize("나는").ids, with(plain->encode("나는"), {}, {plain->eos()}));
  EXPECT_EQ(later->encode("<s> a"), with(plain->encode("a"), {plain->bos()}, {})) << "one space, the text's own";
}

TEST(HuggingFaceFiles, MarianHasTwoModelsAndOneVocabulary) {
  const TextFolder folder;
  folder.write("source.spm", golden("t5-unigram.model"));
  folder.write("target.spm", golden("llama-bpe.model"));
  const TokenizerPtr source = load_tokenizer(folder / "source.spm");
  json vocab = {{"</s>", 0}, {"<unk>", 1}};
  for (std::int32_t id = 3; id < source->size(); id += 2) vocab[source->piece(id)] = vocab.size();  // half of the pieces
  vocab[">>fra<<"] = vocab.size();
  vocab["<pad>"] = vocab.size();
  folder.write("vocab.json", vocab.dump());

  const TokenizerPair pair = load_tokenizers(folder.path());
  EXPECT_FALSE(pair.joint());
  for (const std::string text : {"A dog runs across the green grass.", "나는 학교에 간다", ""}) {
    Ids want;
    for (const std::int32_t id : source->encode(text)) want.push_back(vocab.value(source->piece(id), 1));
    want.push_back(0);
    EXPECT_EQ(pair.source->tokenize(text).ids, want);
  }
  EXPECT_EQ(pair.source->encode(">>fra<< dog").front(), vocab[">>fra<<"]);
  EXPECT_EQ(pair.source->tokenize(">>fra<< dog").places[1].begin, 8) << "the space goes";
  EXPECT_EQ(pair.source->eos(), 0);
  EXPECT_EQ(pair.source->unk(), 1);
  EXPECT_EQ(pair.source->pad(), vocab["<pad>"]);
  EXPECT_EQ(pair.source->bos(), -1);
  const Ids known = {vocab["▁a"], vocab["."], 0};
  EXPECT_EQ(pair.target->decode(known), "a.");

  const TextFolder copy;  // what was read is written again
  save_tokenizers(pair, copy.path());
  for (const char* name : {"source.spm", "target.spm", "vocab.json"})
    EXPECT_EQ(test::contents(copy / name), test::contents(folder / name)) << name;
  test::expect_error([&] { pair.source->save(copy / "one"); }, {"several files"});
}

TEST(HuggingFaceFiles, BertAsItsConfigurationSays) {
  const TextFolder folder;
  folder.write("vocab.txt", golden("bert-vocab.txt"));
  const TokenizerPtr lower = load_tokenizer(folder.path());
  EXPECT_EQ(lower->tokenize("A DOG").tokens, (std::vector<std::string>{"[CLS]", "a", "dog", "[SEP]"}));
  EXPECT_EQ(lower->special_tokens().cls, lower->id("[CLS]"));
  EXPECT_EQ(lower->pad(), lower->id("[PAD]"));
  const Encoding pair = lower->tokenize_pair("a dog", "a");
  EXPECT_EQ(pair.tokens, (std::vector<std::string>{"[CLS]", "a", "dog", "[SEP]", "a", "[SEP]"}));
  EXPECT_EQ(pair.type_ids, (Ids{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(pair.places[4], (TokenPlace{0, 1})) << "places in the second text";
  folder.write("tokenizer_config.json", R"({"do_lower_case": false, "pad_token": "[PAD]"})");
  EXPECT_NE(load_tokenizer(folder.path())->encode("A DOG"), lower->encode("A DOG"));
}

TEST(HuggingFaceFiles, SpecialTokensOfTheConfiguration) {
  const TextFolder folder;
  folder.write("tokenizer.json",
               words({{"added_tokens", {{{"id", 4}, {"content", "<eot>"}, {"special", true}, {"normalized", false}}}}}).dump());
  EXPECT_EQ(load_tokenizer(folder.path())->eos(), -1);
  EXPECT_EQ(load_tokenizer(folder.path())->unk(), 0);
  folder.write("special_tokens_map.json", R"({"eos_token": {"content": "<eot>"}, "bos_token": "<s>", "pad_token": "missing"})");
  const TokenizerPtr tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->eos(), 4);
  EXPECT_EQ(tokenizer->bos(), 3);
  EXPECT_EQ(tokenizer->pad(), -1);
  EXPECT_EQ(tokenizer->encode("a<eot>b"), (Ids{1, 4, 2}));
  EXPECT_EQ(tokenizer->decode(Ids{1, 4, 2}), "a b");
  EXPECT_EQ(tokenizer->decode(Ids{1, 4, 2}, false), "a <eot> b");
  const TextFolder copy;
  tokenizer->save_into(copy.path());
  EXPECT_EQ(load_tokenizer(copy.path())->eos(), 4);
}

// Whatever the files were called, a model's folder has them under the names that are looked for there, and the special tokens with them.
TEST(HuggingFaceFiles, SavedUnderTheNamesThatAreLookedFor) {
  const auto tokens = [](const Tokenizer& t) {
    const SpecialTokens& s = t.special_tokens();
    return Ids{s.pad, s.unk, s.bos, s.eos, s.cls, s.sep, s.mask};
  };
  const TextFolder from;
  std::filesystem::create_directory(from.path() / "odd");
  from.write("my-bpe.json", golden("gpt2-bytelevel-bpe.json"));
  from.write("odd/config.json", golden("bert-wordpiece.json"));
  from.write("small-vocab.json", golden("gpt2-vocab.json"));
  from.write("small-merges.txt", golden("gpt2-merges.txt"));
  from.write("words.txt", golden("bert-vocab.txt"));
  const std::string model = R"({"model_type": "roberta"})", text = "A dog runs 나는";
  for (const auto& [name, saved] : {std::pair{"my-bpe.json", "tokenizer.json"},
                                    {"odd/config.json", "tokenizer.json"},
                                    {"small-vocab.json", "merges.txt"},
                                    {"words.txt", "vocab.txt"}}) {
    const TextFolder to;
    to.write("config.json", std::string(name) == "small-vocab.json" ? R"({"model_type": "gpt2"})" : model);
    const std::string before = test::contents(to / "config.json");
    const TokenizerPtr tokenizer = load_tokenizer(from / name);
    tokenizer->save_into(to.path());
    EXPECT_EQ(test::contents(to / "config.json"), before) << name;
    EXPECT_TRUE(std::filesystem::exists(to / saved)) << name;
    const TokenizerPtr again = load_tokenizer(to.path());
    EXPECT_EQ(again->tokenize(text).ids, tokenizer->tokenize(text).ids) << name;
    EXPECT_EQ(tokens(*again), tokens(*tokenizer)) << name;
  }
  EXPECT_GE(load_tokenizer(from / "odd/config.json")->special_tokens().mask, 0);
  EXPECT_GE(load_tokenizer(from / "small-vocab.json")->eos(), 0);
}

TEST(HuggingFaceFiles, PlacesInTextThatIsNotUtf8) {
  const TokenizerPtr tokenizer = parsed(words());
  const Encoding encoding = tokenizer->tokenize("a \xFF\xE3\x81 b");  // two ill-formed sequences, of one byte and of two
  EXPECT_EQ(encoding.ids, (Ids{1, 0, 2}));
  EXPECT_EQ(encoding.places, (std::vector<TokenPlace>{{0, 1}, {2, 5}, {6, 7}}));
}

TEST(HuggingFaceFiles, StreamsNeverSplitACharacter) {
  const TokenizerPtr gpt2 = load_tokenizer(test::case_folder("tokenizers") / "gpt2-bytelevel-bpe.json");
  const Ids ids = gpt2->encode("x😀y");
  StreamDecoder stream(gpt2);
  std::vector<std::string> parts;
  for (const std::int32_t id : ids) parts.push_back(stream.push(id));
  parts.push_back(stream.finish());
  ASSERT_EQ(ids.size(), 6u) << "the emoji is four tokens here";
  EXPECT_EQ(parts, (std::vector<std::string>{"x", "", "", "", "😀", "y", ""}));

  for (std::size_t cut = 1; cut < 4; ++cut) {  // broken off inside: a replacement character, at the end or before what follows
    EXPECT_EQ(stream.push(ids[1]), "");
    for (std::size_t i = 1; i < cut; ++i) EXPECT_EQ(stream.push(ids[1 + i]), "");
    EXPECT_EQ(stream.push(ids[0]), "\uFFFDx");
    EXPECT_EQ(stream.finish(), "");
  }
  EXPECT_EQ(stream.push(ids[1]), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.push(ids[0]), "x") << "a stream that has ended begins anew";
  EXPECT_EQ(stream.push(1'000'000), "") << "models may have more rows than tokens";
  EXPECT_EQ(gpt2->decode(Ids{1'000'000, ids[0]}), "x");
  test::expect_error([&] { stream.push(-1); }, {"token -1"});
  test::expect_error([&] { gpt2->piece(1'000'000); }, {"token 1000000"});
}

TEST(HuggingFaceFiles, StreamsOfSentencePiece) {
  for (const char* name : {"llama-bpe.model", "t5-unigram.model"}) {
    const TokenizerPtr tokenizer = load_tokenizer(test::case_folder("tokenizers") / name);
    const RandomStream random{};
    for (std::uint64_t round = 0; round < 200; ++round) {
      Ids ids;
      for (std::uint64_t i = 0; i < 1 + random.bits(round) % 12; ++i) {
        const std::uint32_t draw = random.bits(1000 + 16 * round + i);
        ids.push_back(static_cast<std::int32_t>(draw % 3 == 0 ? draw / 3 % 300 : draw / 3 % tokenizer->size()));  // many are bytes
      }
      StreamDecoder stream(tokenizer);
      std::string text;
      for (const std::int32_t id : ids) text += stream.push(id);
      EXPECT_EQ(text + stream.finish(), tokenizer->decode(ids)) << name << " " << json(ids);
    }
  }
}

TEST(HuggingFaceFiles, ManyThreadsUseOne) {
  const TokenizerPtr tokenizer = load_tokenizer(test::case_folder("tokenizers") / "gpt2-bytelevel-bpe.json");
  const std::string text = "A dog runs across the green grass. 나는 학교에 간다 ";
  const Ids want = tokenizer->encode(text);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) wrong[i] += tokenizer->encode(text) == want && tokenizer->decode(want) == text ? 0 : 1;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(HuggingFaceFiles, UnknownPartsAreRefusedByName) {
  const auto refuses = [](const json& changes, const std::vector<std::string>& parts) {
    test::expect_error([&] { parsed(words(changes)); }, parts);
  };
  refuses({{"pre_tokenizer", {{"type", "UnicodeScripts"}}}}, {"pre_tokenizer", "'UnicodeScripts'", "not supported"});
  refuses({{"pre_tokenizer", {{"type", "Digit"}}}}, {"did you mean 'Digits'"});
  refuses({{"decoder", {{"type", "CTC"}}}}, {"decoder", "'CTC'"});
  refuses({{"normalizer", {{"type", "Lowercase"}, {"locale", "tr"}}}}, {"normalizer", "locale"});
  refuses({{"normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "("}}}, {"content", ""}}}}, {"normalizer", "parenthesis"});
  refuses({{"post_processor", {{"type", "BertProcessing"}, {"sep", 3}}}}, {"post_processor", "'sep'"});
  refuses({{"model", {{"type", "Neural"}}}}, {"model", "'Neural'"});
  refuses({{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", {"a b"}}}}}, {"model", "merge 0", "'b'"});
  refuses({{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}, {"dropout", 0.1}}}}, {"dropout 0.1"});
  refuses({{"model", {{"type", "BPE"}, {"vocab", {{"a", 2'000'000'000}}}, {"merges", json::array()}}}}, {"2000000000", "damaged"});
  refuses({{"model", {{"type", "BPE"}, {"vocab", {{"a", -1}}}, {"merges", json::array()}}}}, {"'a'", "-1"});
  refuses({{"model", {{"type", "Unigram"}, {"vocab", {{"a", 0.0, 1}}}}}}, {"entry 0"});
  refuses({{"model", {{"type", "Unigram"}, {"vocab", json::array({json::array({"a", 0.0})})}, {"unk_id", 7}}}}, {"unk_id is 7"});
  refuses({{"added_tokens", {{{"id", 9}, {"content", "a"}}}}}, {"added_tokens", "'a'", "9", "1"});
  refuses({{"added_tokens", {{{"id", 900'000'000}, {"content", "x"}}}}}, {"900000000", "damaged"});
  const auto frame = [](std::int64_t id) -> json {
    return {{"type", "TemplateProcessing"},
            {"single", {{{"SpecialToken", {{"id", "<e>"}, {"type_id", 0}}}}}},
            {"pair", json::array()},
            {"special_tokens", {{"<e>", {{"id", "<e>"}, {"ids", {id}}, {"tokens", {"<e>"}}}}}}};
  };
  refuses({{"post_processor", frame(1'000'000)}}, {"post_processor", "'<e>'", "1000000"});
  refuses({{"post_processor", frame(-1)}}, {"post_processor", "'<e>'", "-1"});
  json text = frame(0), nothing = frame(0);
  text["single"] = {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}};
  nothing["single"] = json::array();
  refuses({{"post_processor", {{"type", "Sequence"}, {"processors", {nothing, text}}}}}, {"leave no text"});
  refuses({{"surprise", 1}}, {"'surprise'"});
  json deep = {{"type", "Lowercase"}};
  for (int i = 0; i < 100; ++i) deep = {{"type", "Sequence"}, {"normalizers", {deep}}};
  refuses({{"normalizer", deep}}, {"normalizer", "nested"});
  test::expect_error([] { parse_tokenizer("{"); }, {"not JSON"});
  test::expect_error([] { parse_tokenizer("[]"); }, {"object"});
}

TEST(HuggingFaceFiles, AbsurdGrowthIsRefused) {
  json steps = json::array();
  for (int i = 0; i < 20; ++i) steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(100, 'a')}});
  const TokenizerPtr grows = parsed(words({{"normalizer", {{"type", "Sequence"}, {"normalizers", steps}}}}));
  test::expect_error([&] { grows->encode("aaaa"); }, {"times as long"});
  const TokenizerPtr decodes = parsed(words({{"decoder", {{"type", "Sequence"}, {"decoders", steps}}}}));
  test::expect_error([&] { decodes->decode(Ids{1}); }, {"bytes long"});
}

// Bytes changed, dropped and repeated at random: an Error or a tokenizer that works, nothing else.
TEST(HuggingFaceFiles, DamagedFilesAreErrors) {
  const RandomStream random{};
  std::uint64_t draw = 0;
  const auto next = [&](std::uint64_t below) { return random.bits(draw++) % below; };
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(test::case_folder("tokenizers-made")))
    if (entry.path().extension() == ".json" && entry.file_size() < 8000) files.push_back(read_file(entry.path()));
  ASSERT_FALSE(files.empty());
  std::sort(files.begin(), files.end());
  const std::vector<std::string> values = {"null",       "0",    "1",  "false", "\"a\"", "-1",           "1e99",
                                           "4294967296", "\"\"", "[]", "{}",    "true",  "\"Sequence\"", "\"\xF0\x9F\x98\x80\""};
  int loaded = 0;
  for (int round = 0; round < 800; ++round) {
    std::string bytes = files[next(files.size())];
    for (std::uint64_t change = 0; round % 2 == 0 && change <= next(3); ++change) {  // JSON as before, with another value in it
      json file = json::parse(bytes);
      std::vector<std::string> keys;
      const json flat = file.flatten();
      for (const auto& [key, value] : flat.items())
        if (key.find("vocab") == std::string::npos || next(50) == 0) keys.push_back(key);
      std::string key = keys[next(keys.size())];
      if (next(3) == 0 && key.rfind('/') > 0) key.erase(key.rfind('/'));  // all that it stands in
      file[json::json_pointer(key)] = json::parse(values[next(values.size())]);
      bytes = file.dump();
    }
    for (std::uint64_t change = 0; round % 2 == 1 && change <= next(4); ++change) {
      const std::size_t at = next(bytes.size());
      switch (next(5)) {
        case 0: bytes[at] = static_cast<char>(next(256)); break;
        case 1: bytes.erase(at, 1 + next(20)); break;
        case 2: bytes.insert(at, bytes.substr(next(bytes.size()), 1 + next(60))); break;
        case 3: bytes.insert(at, values[next(values.size())]); break;
        default: {  // a value in the place of another
          const std::size_t colon = bytes.find(':', at), end = bytes.find_first_of(",}]", colon);
          if (end != std::string::npos) bytes.replace(colon + 1, end - colon - 1, values[next(values.size())]);
        }
      }
      if (bytes.empty()) bytes = "{}";
    }
    try {
      const TokenizerPtr tokenizer = parse_tokenizer(bytes);
      const Encoding encoding = tokenizer->tokenize_pair("I'll 나는 <s>é 😀  12", "[CLS] \x80 x");
      StreamDecoder stream(tokenizer, false);
      for (const std::int32_t id : encoding.ids)
        if (id >= 0 && id < tokenizer->size()) {
          EXPECT_TRUE(is_valid_utf8(stream.push(id)));
        }
      stream.finish();
      ++loaded;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(loaded, 20) << "some changes do no harm";
}

}  // namespace
}  // namespace transformer
