#include "seeds.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "io/shared/json.h"
#include "transformer/io/safetensors.h"
#include "transformer/text/token_row.h"
#include "transformer/tokenizers/vocabulary.h"

namespace transformer::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_seed = 16'384;  // larger ones are slow to change and to read
const fs::path root = TRANSFORMER_SOURCE_DIR, golden = root / "tests" / "golden";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The files below a folder that `wanted` takes, in the order of their names, so that a run can be repeated.
std::vector<fs::path> files_below(const fs::path& folder, const std::function<bool(const fs::path&)>& wanted) {
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && wanted(entry.path())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> read_all(const fs::path& folder, const std::function<bool(const fs::path&)>& wanted) {
  std::vector<std::string> seeds;
  for (const fs::path& file : files_below(folder, wanted))
    if (fs::file_size(file) <= largest_seed) seeds.push_back(read(file));
  return seeds;
}

// With those of fuzz/seeds/TARGET.
std::vector<std::string> with_own(std::string_view target, std::vector<std::string> seeds) {
  for (std::string& seed : read_all(root / "fuzz" / "seeds" / target, [](const fs::path&) { return true; }))
    seeds.push_back(std::move(seed));
  return seeds;
}

std::function<bool(const fs::path&)> called(const char* name) {
  return [name](const fs::path& path) { return path.filename() == name; };
}

// The bytes of a safetensors file of this header, a tensor's bytes being zeros.
std::string safetensors_file(const nlohmann::ordered_json& header, std::size_t data) {
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + text + std::string(data, '\0');
}

nlohmann::ordered_json entry(std::string_view dtype, const std::vector<std::int64_t>& shape, std::size_t begin, std::size_t end) {
  return {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, end}}};
}

// A file with the first small tensors of a large one.
std::string cut_down(const fs::path& path) {
  const SafetensorsFile file(path);
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!file.metadata().empty()) header["__metadata__"] = file.metadata();
  std::size_t end = 0;
  for (const std::string& name : file.names()) {
    const Shape shape = file.shape(name);
    const auto bytes = static_cast<std::size_t>(shape.numel() * size_of(file.dtype(name)));
    if (bytes > 256 || header.size() > 6) continue;
    header[name] = entry(file.stored_type(name), {shape.begin(), shape.end()}, end, end + bytes);
    end += bytes;
  }
  return safetensors_file(header, end);
}

std::string joined(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string all;
  for (const auto& [name, bytes] : files) all += "=== " + name + "\n" + bytes + "\n";
  return all;
}

}  // namespace

std::string small_safetensors(const std::vector<std::string>& names) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::size_t end = 0;
  for (const std::string& name : names) header[name] = entry("F32", {2}, end, end + 8), end += 8;
  return safetensors_file(header, end);
}

std::vector<std::string> safetensors_seeds() {
  std::vector<std::string> seeds;
  for (const char* name : {"model.safetensors", "expected.safetensors"})
    for (const fs::path& path : files_below(golden, called(name)))
      if (seeds.size() < 40) seeds.push_back(cut_down(path));
  nlohmann::ordered_json header;
  std::size_t end = 0;
  for (const auto& [type, size] : {std::pair{"F64", 8U},
                                   {"I64", 8U},
                                   {"F32", 4U},
                                   {"I32", 4U},
                                   {"BF16", 2U},
                                   {"F16", 2U},
                                   {"U8", 1U},
                                   {"I8", 1U},
                                   {"BOOL", 1U},
                                   {"I16", 2U},
                                   {"F8_E4M3", 1U}})
    header[type] = entry(type, {3, 1}, end, end + 3 * size), end += 3 * size;
  header["empty"] = entry("F32", {0, 7}, end, end);
  header["scalar"] = entry("F32", {}, end, end + 4);
  seeds.push_back(safetensors_file(header, end + 4));
  seeds.push_back(safetensors_file(nlohmann::ordered_json::object(), 0));
  return with_own("safetensors", std::move(seeds));
}

std::vector<std::string> index_seeds() {
  const std::string one = "model-00001-of-00002.safetensors", two = "model-00002-of-00002.safetensors";
  const nlohmann::ordered_json index{{"metadata", {{"total_size", 24}}},
                                     {"weight_map", {{"a.weight", one}, {"a.bias", one}, {"b.weight", two}}}};
  return with_own("index", {index.dump(), index.dump(2), R"({"weight_map": {}})"});
}

std::vector<std::string> config_seeds() { return with_own("config", read_all(golden, called("config.json"))); }

fs::path golden_folder(std::string_view name) { return golden / name; }

std::vector<std::string> adapter_seeds() { return with_own("adapter", read_all(golden, called("adapter_config.json"))); }

std::vector<std::string> generation_seeds() { return with_own("generation", read_all(golden, called("generation_config.json"))); }

std::vector<std::string> labelled_seeds() {
  return {"a text\tgood\nanother\tbad\r\n\tgood\n",
          "id\tlabel\ttext\n1\tx\t나는\n2\ty\tb\n",
          "{\"text\": \"a\", \"labels\": [\"x\", 2, true]}\n{\"text\": \"b\", \"labels\": []}\n",
          "text,label\n\"a, \"\"b\"\"\",x\n\"two\nlines\",y\n",
          "Review;Sentiment\r\nja, nein;pos\r\n\"a;b\";neg\r\n",
          "\"text\"\t\"label\"\n\"a\tb\"\t1\n\"c\nd\"\t2\n",
          "\"Oh\tneg\nhe \"said\"\tpos\nno\"\tneg\n",
          "0,1\nfine,1\nbad,0\n",
          std::string("\xFF\xFEt\0,\0l\0\n\0a\0,\0x\0\n\0=\xD8\0\xDE,\0y\0\n\0", 28),
          std::string("\xFE\xFF\0a\0\t\0x", 8),
          "{\"text\": \"a\", \"label\": \"x\"}\n{\"label\": 1, \"text\": \"\\u00e9\", \"more\": [1, {}]}\n"};
}
std::vector<std::string> tagged_seeds() {
  return {"-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\r\n\n나는\tO\n(U.N.)\tI-X\n",
          "{\"tokens\": [\"EU\", \"is\"], \"tags\": [\"B-ORG\", \"O\"]}\n{\"tags\": [1], \"tokens\": [\"\\u00e9.\"], \"more\": {}}\n"};
}
std::vector<std::string> request_seeds() {
  return {
      R"({"model":"m","prompt":["a","\u00e9"],"max_tokens":5,"temperature":0.5,"stop":["x"],"n":2,"seed":1,"logprobs":3,"stream":true})",
      R"({"model":"m","prompt":[[1,2],[3]],"response_format":{"type":"object","properties":{"a":{"type":["string","null"],"maxLength":3},)"
      R"("b":{"type":"array","items":{"$ref":"#/$defs/t"},"minItems":1}},"required":["b"],"$defs":{"t":{"anyOf":[{"enum":[1,"x"]},{"type":"number"}]}}}})",
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"top_logprobs":2,"logit_bias":{"5":-100}})",
      R"({"q":["a","b"],"source":"auto","target":"ko","alternatives":1,"beam":3})",
      R"({"series":{"a":[1,2.5,-3e4]},"steps":3})",
      "q=a%C3%A9&q=b=%2+c&source=auto&alternatives=2&beam=null",
      "--xyz\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\na\r\nb\r\n--xyz\r\nContent-Type: text/plain\r\n"
      "content-disposition: form-data; name=beam; filename=\"x\"\r\n\r\n3\r\n--xyz--\r\n",
      R"({"model":"m","tokens":[1,2,3]})",
      R"({"text":"hi","image":"AAAA","top_k":0})"};
}
std::vector<std::string> table_seeds() {
  return {"date,a,b\n2024-01-01,1,-2.5\n2024-01-02,,NaN\n2024-01-03 12:00:00,1e3,+4\n",
          "\"the \"\"day\"\"\";\"a;b\"; c\r\n2024/01/31;1;2\r\n2024/02/29;3;\"4\"\r\n",
          "year\tx\n1999\t1\n2000\t2\n2002\tnull\n2003\t4\n",
          "x,\"two\nlines\"\n1,2\n\n3,4\n",
          "s,when,a\n0,2024-01-31T00:00:00.000+09:00,1\n0,2024-02-29T00:00:00+09:00,2\n",
          "date;a\n20240131;1\n20240229;2\n20240330;3\n",
          "month,a\n1949-01,1\n1949-02,2\n",
          "d;a\n01/31/2024;1,5\n2/1/2024 9:00;-0,25\n",
          "d;a\n31/12/2023;1,234\n01/01/2024;2,5\n",
          "d\ta\n31.12.2023\t1\n01.01.2024\t2\n",
          "날짜,값\n2023년 12월 31일,1\n2024년 1월 1일,2\n",
          "d,a\n31-Dec-2023,1\n01-Jan-2024,2\n",
          "2024-01-01,1,2\n2024-01-02,3,4\n",
          "%d-%b-%y %I:%M %p\nd,a\n31-Dec-23 11:00 PM,1\n1-Jan-24 12:00 AM,2\n",
          "%a %FT%T.%f%z\nd,a\nMon 2024-01-01T00:00:00.0+0900,1\nMon 2024-01-01T01:00:00.0+0900,2\n",
          "%Y-%j\nd,a\n2024-365,1\n2025-001,2\n"};
}
std::vector<std::string> tokens_seeds() {
  const fs::path path = fs::temp_directory_path() / fmt::format("transformer-fuzz-tokens-{}.bin", getpid());
  TokenFileWriter file(path, *make_vocabulary({}, {.kind = VocabularyKind::bytes}));
  file.add(std::vector<std::int32_t>{1, 2, 3, 256, 255}, 5);
  file.finish();
  std::vector<std::string> seeds{read(path)};
  fs::remove(path);
  return seeds;
}
std::vector<std::string> toml_seeds() { return with_own("toml", {}); }

std::vector<std::string> tokenizer_seeds() {
  return with_own("tokenizer", read_all(golden / "tokenizers-made", [](const fs::path& p) {
                    return p.extension() == ".json" && p.filename() != "cases.json";
                  }));
}

std::vector<std::string> vocabulary_seeds() {
  const auto model = [](SentencePieceKind kind) {
    const fs::path path = fs::temp_directory_path() / ("transformer-fuzz-" + std::to_string(static_cast<int>(kind)) + ".model");
    LineSource lines = [i = 0](std::string& line) mutable {
      line = i % 2 == 0 ? "the cat sat on the mat" : "나는 학교에 간다";
      return i++ < 20;
    };
    train_sentencepiece(lines, {.kind = kind, .vocab_size = 60, .normalization = "identity"})->save(path);
    std::string bytes = read(path);
    fs::remove(path);
    return bytes;
  };
  const std::string bpe = model(SentencePieceKind::bpe), unigram = model(SentencePieceKind::unigram);
  const std::string words =
      R"({"<s>": 0, "</s>": 1, "<unk>": 2, "<mask>": 3, "t": 4, "h": 5, "e": 6, "th": 7, "the": 8, "Ġ": 9, "Ġthe": 10})";
  const std::string merges = "#version: 0.2\nt h\nth e\nĠ the\n";
  const std::string pieces = R"({"</s>": 0, "<unk>": 1, "▁the": 2, "▁cat": 3, "▁": 4, "a": 5, "<pad>": 6})";
  return with_own(
      "vocabulary",
      {joined({{"vocab.json", words}, {"merges.txt", merges}}),
       joined({{"vocab.json", words},
               {"merges.txt", merges},
               {"tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer", "bos_token": "<s>", "add_prefix_space": true,
                             "added_tokens_decoder": {"3": {"content": "<mask>", "lstrip": true, "special": true}}})"}}),
       joined({{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##e\nt\n##h\n나\n##는"},
               {"tokenizer_config.json", R"({"do_lower_case": true, "strip_accents": null, "tokenize_chinese_chars": true})"},
               {"added_tokens.json", R"({"<new>": 11})"}}),
       joined({{"vocab.txt", "<pad>\n<unk>\n<s>\n</s>\nthe\ncat"}}), joined({{"tokenizer.model", bpe}}),
       joined({{"tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", "legacy": false, "add_bos_token": true})"},
               {"tokenizer.model", bpe}}),
       joined({{"config.json", R"({"model_type": "t5"})"}, {"tokenizer_config.json", R"({"extra_ids": 3})"}, {"spiece.model", unigram}}),
       joined({{"vocab.json", pieces}, {"source.spm", unigram}, {"target.spm", unigram}}),
       joined({{"config.json", R"({"model_type": "pegasus"})"}, {"tokenizer_config.json", R"({"offset": 5})"}, {"spiece.model", unigram}}),
       joined({{"config.json", R"({"model_type": "m2m_100"})"},
               {"tokenizer_config.json", R"({"src_lang": "en", "tgt_lang": "ko", "language_codes": "m2m100"})"},
               {"vocab.json", pieces},
               {"sentencepiece.bpe.model", bpe}}),
       joined({{"config.json", R"({"model_type": "mbart"})"}, {"sentencepiece.bpe.model", unigram}}),
       joined({{"tokenizer_config.json", R"({"tokenizer_class": "MBart50Tokenizer", "src_lang": "ko_KR"})"},
               {"sentencepiece.bpe.model", unigram}}),
       joined({{"tokenizer_config.json", R"({"tokenizer_class": "NllbTokenizer", "legacy_behaviour": true})"},
               {"sentencepiece.bpe.model", bpe}})});
}

std::vector<std::string> chat_seeds() {
  std::vector<std::string> seeds;
  std::set<std::string> seen;
  for (const nlohmann::json& c : read_json(golden / "chat-template" / "cases.json"))
    if (auto text = c.value("template", ""); text.size() <= largest_seed && seen.insert(text).second) seeds.push_back(std::move(text));
  return with_own("chat", std::move(seeds));
}

std::vector<std::string> processor_seeds() { return with_own("processor", {}); }

std::vector<std::string> image_seeds(std::string_view end) {
  const auto wanted = [&](const fs::path& path) { return path.extension() == end; };
  std::vector<std::string> seeds = read_all(root / "tests" / "vision" / "images", wanted);
  for (std::string& seed : read_all(root / "fuzz" / "seeds" / "image", wanted)) seeds.push_back(std::move(seed));
  return seeds;
}
std::vector<std::string> idx_seeds() { return with_own("idx", {}); }

std::vector<std::pair<std::string, std::string>> split_files(std::string_view input) {
  constexpr std::string_view mark = "=== ";
  std::vector<std::pair<std::string, std::string>> files;
  while (input.starts_with(mark)) {
    input.remove_prefix(mark.size());
    const std::size_t line = std::min(input.find('\n'), input.size());
    const std::string name(input.substr(0, line));
    input.remove_prefix(std::min(line + 1, input.size()));
    const std::size_t next = input.find("\n=== ");
    if (std::find(vocabulary_files.begin(), vocabulary_files.end(), name) != vocabulary_files.end())
      files.emplace_back(name, input.substr(0, next));
    input.remove_prefix(next == std::string_view::npos ? input.size() : next + 1);
  }
  return files;
}

}  // namespace transformer::fuzz
