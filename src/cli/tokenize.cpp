// transformer tokenize: lines to tokens and back, or text to a file of tokens; transformer tokenize train: a tokenizer from text.
#include <charconv>
#include <cstdio>
#include <memory>

#include "cli/files.h"
#include "cli/flags.h"
#include "cli/verbs.h"
#include "io/shared/utf8.h"
#include "transformer/text/documents.h"
#include "transformer/text/token_row.h"
#include "transformer/tokenizers/tokenizer_pair.h"
#include "transformer/tokenizers/vocabulary.h"

namespace transformer::cli {
namespace {

enum class Side : std::uint8_t { source, target };
EnumNames<Side> names(Side) { return {{Side::source, "source"}, {Side::target, "target"}}; }

struct TokenizeConfig {
  std::string model = {};
  bool ids = false, pieces = false, decode = false, special = true, keep_special = false;
  Side side = Side::source;
  std::string to_bin = {};
  Documents documents = Documents::file;

  static void visit(auto& self, auto&& field) {
    field("ids", self.ids, "tokens are numbers");
    field("pieces", self.pieces, "tokens are pieces of text; so it is without --ids too");
    field("decode", self.decode, "from tokens to text");
    field("special", self.special, "put the special tokens that the model wants around a text");
    field("keep_special", self.keep_special, "show special tokens when decoding");
    field("side", self.side, "which tokenizer of a model that has two");
    field("to_bin", self.to_bin, "write the tokens into this file instead, for 'train lm --bin': of text of any size, line ends included");
    field("documents", self.documents, "with --to-bin: what a document is; the end-of-text token stands between two");
  }
};

struct TrainTokenizerConfig {
  std::vector<std::string> input = {};
  std::string out = "tokenizer.model";
  bool words = false;
  std::optional<VocabularyKind> vocab = {};

  static void visit(auto& self, auto&& field) {
    field("input", self.input, "text files, plain or gzip; - is standard input");
    field("out", self.out, "the file to write");
    field("words", self.words, "a vocabulary of words for text that is tokenised already, instead of a subword model");
    field("vocab", self.vocab, "a vocabulary for language models, as a tokenizer.json: it keeps every space and line end");
  }
};

TokenizerPtr open(const TokenizeConfig& config) {
  if (config.model == "byte" && !std::filesystem::exists(config.model)) return make_vocabulary({}, {.kind = VocabularyKind::bytes});
  if (!std::filesystem::is_directory(config.model) || !has_tokenizers(config.model)) return load_tokenizer(config.model);
  const TokenizerPair pair = load_tokenizers(config.model);
  return config.side == Side::source ? pair.source : pair.target;
}

// The tokens of one line, numbers or pieces.
std::vector<std::int32_t> read_tokens(const Tokenizer& tokenizer, const std::string& line, bool ids, std::int64_t number) {
  std::vector<std::int32_t> tokens;
  for (const std::string& word : CLI::detail::split(line, ' ')) {
    if (word.empty()) continue;
    std::int32_t id = 0;
    if (!ids) {
      id = tokenizer.id(word);
    } else if (const auto read = std::from_chars(word.data(), word.data() + word.size(), id);
               read.ec != std::errc() || read.ptr != word.data() + word.size()) {
      fail("standard input", "line {}: '{}' is not the number of a token", number, word);
    }
    tokens.push_back(id);
  }
  return tokens;
}

// Standard input to a file of tokens, some parts at a time: memory does not grow with the text.
void tokenize_to_bin(const TokenizeConfig& config, const Tokenizer& tokenizer) {
  const std::int32_t end = document_token(tokenizer);
  DocumentReader documents({"-"}, config.documents);
  TokenFileWriter file(config.to_bin, tokenizer);
  bool between = false;  // a document has ended, and another may come
  std::vector<DocumentPart> parts;
  const auto read = [&] {
    parts.clear();
    std::size_t bytes = 0;
    for (DocumentPart part; bytes < std::size_t{8} << 20 && documents.next(part); bytes += part.text.size()) parts.push_back(part);
    return !parts.empty();
  };
  while (read()) {
    const std::vector<std::vector<std::int32_t>> encoded = encode(tokenizer, parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (between && end >= 0) file.add({&end, 1}, 0);
      file.add(encoded[i], std::ssize(parts[i].text));
      between = parts[i].last;
    }
  }
  if (file.size() == 0) fail("standard input", "there is no text");
  file.finish();
  fmt::print("{}: {} tokens of a vocabulary of {}\n", config.to_bin, file.size(), tokenizer.size());
  if (documents.replaced() > 0)
    fmt::print(stderr, "transformer: {} sequences of bytes that are not UTF-8 became U+FFFD\n", documents.replaced());
}

void tokenize(const TokenizeConfig& config) {
  if (config.ids && config.pieces) throw CLI::ValidationError("--ids and --pieces exclude each other");
  if (!config.to_bin.empty() && config.decode) throw CLI::ValidationError("--to-bin and --decode exclude each other");
  keep_apart({{"MODEL", config.model}, {"--input", "-"}}, {{"--to-bin", or_standard(config.to_bin)}});
  const TokenizerPtr tokenizer = open(config);
  if (!config.to_bin.empty()) return tokenize_to_bin(config, *tokenizer);
  LineReader input("-");
  std::int64_t replaced = 0;
  for (std::string line, out; input.next(line);) {
    out.clear();
    if (config.decode) {
      out = tokenizer->decode(read_tokens(*tokenizer, line, config.ids, input.number()), !config.keep_special);
    } else {
      if (!is_valid_utf8(line)) line = sanitize_utf8(line, replaced);
      const Encoding encoding = tokenizer->tokenize(line, config.special);
      for (std::size_t i = 0; i < encoding.size(); ++i)
        out.append(out.empty() ? "" : " ").append(config.ids ? std::to_string(encoding.ids[i]) : encoding.tokens[i]);
    }
    out += '\n';
    std::fwrite(out.data(), 1, out.size(), stdout);
  }
  if (replaced > 0) fmt::print(stderr, "transformer: {} sequences of bytes that are not UTF-8 became U+FFFD\n", replaced);
}

TokenizerPtr train_vocabulary(const TrainTokenizerConfig& config, const SentencePieceOptions& subwords) {
  DocumentReader text(config.input, Documents::file);
  const LineSource parts = [&text](std::string& part) {
    DocumentPart next;
    const bool more = text.next(next);
    part = std::move(next.text);
    return more;
  };
  return make_vocabulary(parts,
                         {.kind = *config.vocab, .vocab_size = subwords.vocab_size, .character_coverage = subwords.character_coverage});
}

void train_tokenizer(const TrainTokenizerConfig& config, const SentencePieceOptions& subwords, const WhitespaceOptions& words) {
  if (config.input.empty()) throw CLI::RequiredError("--input");
  if (config.vocab && config.words) throw CLI::ValidationError("--vocab and --words exclude each other");
  std::vector<NamedFile> texts;
  for (const std::string& path : config.input) texts.push_back({"--input", path});
  keep_apart(texts, {{"--out", config.out}});
  const TokenizerPtr tokenizer = config.vocab ? train_vocabulary(config, subwords)
      : config.words                          ? build_whitespace(read_lines(config.input), words)
                                              : train_sentencepiece(read_lines(config.input), subwords);
  tokenizer->save(config.out);
  fmt::print("{}: {} tokenizer of {} pieces\n", config.out, tokenizer->kind(), tokenizer->size());
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("tokenize", "lines on standard input to tokens and back; 'tokenize train' makes a tokenizer");
  auto config = std::make_shared<TokenizeConfig>();
  verb->add_option("MODEL", config->model, "a tokenizer's file or a model's folder");
  add_settings(*verb, *config);

  CLI::App* trainer = verb->add_subcommand("train", "make a subword model, or a vocabulary of words, from text");
  auto training = std::make_shared<TrainTokenizerConfig>();
  auto subwords = std::make_shared<SentencePieceOptions>();
  auto words = std::make_shared<WhitespaceOptions>();
  add_settings(*trainer, *training, *subwords, part(*words, {.prefix = "words"}));
  trainer->callback([=] { train_tokenizer(*training, *subwords, *words); });

  verb->callback([=] {
    if (trainer->parsed()) return;
    if (config->model.empty()) throw CLI::RequiredError("MODEL");
    tokenize(*config);
  });
}

}  // namespace transformer::cli
