// Subword models by the SentencePiece library: its reference implementation of training, encoding and decoding.
#include <malloc.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "io/shared/atomic_file.h"
#include "io/shared/read_file.h"
#include "io/shared/utf8.h"
#include "tokenizers/shared/kinds.h"
#include "transformer/core/random.h"
#include "transformer/core/setting_error.h"

namespace transformer {
namespace {

using sentencepiece::SentencePieceProcessor;
using sentencepiece::util::Status;

// "Internal: src/trainer_interface.cc(661) [(a) == (b)] What went wrong." → "What went wrong."
std::string words_of(const Status& status) {
  std::string text = status.ToString();
  if (const auto bracket = text.find(")] "); bracket != std::string::npos) text.erase(0, bracket + 3);
  return text;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(std::unique_ptr<SentencePieceProcessor> model)
      : Tokenizer({model->pad_id(), model->unk_id(), model->bos_id(), model->eos_id()}), model_(std::move(model)) {}

  std::string_view kind() const override { return "sentencepiece"; }
  std::int64_t size() const override { return model_->GetPieceSize(); }
  std::int32_t id(std::string_view piece) const override { return model_->PieceToId(piece); }
  const SentencePieceProcessor& model() const { return *model_; }

  void save(const std::filesystem::path& path) const override {
    AtomicFile file(path);
    file.write(model_->serialized_model_proto());
    file.commit();
  }

 private:
  std::vector<std::int32_t> encode_valid(std::string_view text) const override {
    std::vector<int> ids;
    if (const Status status = model_->Encode(text, &ids); !status.ok()) fail("sentencepiece", "cannot encode: {}", words_of(status));
    return ids;
  }

  Encoding tokenize_valid(std::string_view text) const override {
    Encoding out;
    const auto encoded = model_->EncodeAsImmutableProto(text);
    for (const auto& piece : encoded.pieces()) {
      out.ids.push_back(static_cast<std::int32_t>(piece.id()));
      out.tokens.push_back(piece.piece());
      out.places.push_back({piece.begin(), piece.end()});
    }
    out.type_ids.assign(out.size(), 0);
    out.added.assign(out.size(), 0);
    return out;
  }

  std::string decode_all(std::span<const std::int32_t> ids) const override {
    std::string text;
    const Status status = model_->Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    if (!status.ok()) fail("sentencepiece", "cannot decode: {}", words_of(status));
    return text;
  }

  // What a piece gives depends on those before it in two ways: a row of bytes is text only as a whole, and the space at the
  // very beginning goes. So a piece that is not a byte is decoded behind the last one that had text.
  class Stream final : public Detokenizer {
   public:
    explicit Stream(const SentencePieceTokenizer& tokenizer) : tokenizer_(tokenizer), model_(*tokenizer.model_) {}
    void push(std::int32_t id, std::string& out) override {
      ids_.push_back(id);
      if (model_.IsByte(id)) return;
      finish(out);
      if (known_.empty()) return;  // nothing but spaces that go
      ids_ = {id};
      known_ = decoded();
      if (known_.empty()) start_over();
    }
    void finish(std::string& out) override {
      const std::string text = decoded();
      out.append(text, known_.size());
      known_ = text;
    }

   private:
    // The last piece has no text of its own where a text begins: a visible one takes its place.
    void start_over() {
      for (int id = 0; id < model_.GetPieceSize() && known_.empty(); ++id) {
        if (model_.IsByte(id) || model_.IsControl(id)) continue;
        ids_ = {id};
        known_ = decoded();
      }
    }
    std::string decoded() const { return tokenizer_.decode_all(ids_); }

    const SentencePieceTokenizer& tokenizer_;
    const SentencePieceProcessor& model_;
    std::vector<std::int32_t> ids_;
    std::string known_;  // of the text of ids_, what has been given out
  };
  std::unique_ptr<Detokenizer> detokenizer() const override { return std::make_unique<Stream>(*this); }

  std::string piece_of(std::int32_t id) const override { return model_->IdToPiece(id); }

  std::unique_ptr<SentencePieceProcessor> model_;
};

std::unique_ptr<SentencePieceProcessor> processor(std::string_view source, std::string_view bytes) {
  auto model = std::make_unique<SentencePieceProcessor>();
  Status status;
  try {
    status = model->LoadFromSerializedProto(bytes);
  } catch (const std::exception& e) {  // its index of the pieces throws, of an empty one for instance
    fail(source, "not a SentencePiece model: {}", e.what());
  }
  if (!status.ok()) fail(source, "not a SentencePiece model: {}", words_of(status));
  return model;
}

TokenizerPtr from_bytes(std::string_view source, std::string_view bytes) {
  return std::make_shared<SentencePieceTokenizer>(processor(source, bytes));
}

// The fields of a message of protocol buffers: f(number, value of a varint, bytes of what has a length).
template <class F>
void for_each_field(std::string_view message, const F& f) {
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0; !message.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  const auto take = [&](std::uint64_t bytes) {
    const std::string_view part = message.substr(0, std::min<std::uint64_t>(bytes, message.size()));
    message.remove_prefix(part.size());
    return part;
  };
  while (!message.empty()) {
    const std::uint64_t key = varint();
    switch (key & 7U) {
      case 0: f(key >> 3, varint(), {}); break;
      case 1: take(8); break;
      case 2: f(key >> 3, 0, take(varint())); break;
      case 5: take(4); break;
      default: return;
    }
  }
}

class SentencePieceModel final : public TokenModel {
 public:
  SentencePieceModel(std::unique_ptr<SentencePieceProcessor> model, Vocabulary vocabulary, std::int32_t unknown, bool own_ids,
                     bool target_marks)
      : model_(std::move(model)), vocabulary_(std::move(vocabulary)), unknown_(unknown), own_ids_(own_ids), target_marks_(target_marks) {}

  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override {
    std::uint32_t begin = 0;
    if (target_marks_ && piece.starts_with(">>")) {
      const std::size_t end = piece.substr(0, piece.find('\n')).rfind("<<");
      if (end != std::string_view::npos && end > 2) {
        begin = static_cast<std::uint32_t>(end + 2);
        tokens.push_back(token(piece.substr(0, begin), 0, begin));
      }
    }
    const auto encoded = model_->EncodeAsImmutableProto(piece.substr(begin));
    for (const auto& part : encoded.pieces()) {
      const std::uint32_t from = begin + part.begin(), to = begin + part.end();
      tokens.push_back(own_ids_ ? ModelToken{static_cast<std::int32_t>(part.id()), from, to, model_->IsUnknown(static_cast<int>(part.id()))}
                                : token(part.piece(), from, to));
    }
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::int32_t unknown() const override { return unknown_; }

 private:
  ModelToken token(std::string_view text, std::uint32_t begin, std::uint32_t end) const {
    const std::int32_t id = vocabulary_.find(text);
    return {id >= 0 ? id : unknown_, begin, end, id < 0};
  }
  std::unique_ptr<SentencePieceProcessor> model_;
  Vocabulary vocabulary_;
  std::int32_t unknown_;
  bool own_ids_, target_marks_;
};

// Hands lines to the trainer, which keeps its own copy: each is freed as soon as it has been taken, if it is not `kept`.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  Lines(std::span<std::string> lines, bool kept) : lines_(lines), kept_(kept) {}
  bool done() const override { return at_ == lines_.size(); }
  const std::string& value() const override { return lines_[at_]; }
  void Next() override {
    if (!kept_) std::string().swap(lines_[at_]);
    ++at_;
  }
  Status status() const override { return {}; }

 private:
  std::span<std::string> lines_;
  std::size_t at_ = 0;
  bool kept_;
};

// The trainer passes over longer lines.
constexpr std::size_t longest_line = 4192;

// Bytes of text to take as one line for the trainer: all, or as many whole words (else whole characters) as fit.
std::size_t cut(std::string_view text) {
  if (text.size() <= longest_line) return text.size();
  if (const std::size_t space = text.rfind(' ', longest_line); space != std::string_view::npos && space > 0) return space;
  std::size_t at = longest_line;
  while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

// The lines to train on: all, or a sample drawn evenly (algorithm R), the same one every time.
std::vector<std::string> collect(const LineSource& source, std::size_t limit) {
  const RandomStream random{};
  std::vector<std::string> lines;
  std::uint64_t seen = 0;
  std::int64_t ignored = 0;
  for (std::string line; source(line);) {
    if (!is_valid_utf8(line)) line = sanitize_utf8(line, ignored);
    for (std::string_view rest = line; !rest.empty();) {
      const std::size_t bytes = cut(rest);
      const std::uint64_t place = seen < limit ? seen
                                               : (std::uint64_t{random.bits(2 * seen)} << 32 | random.bits(2 * seen + 1)) % (seen + 1);
      if (place == lines.size()) lines.emplace_back(rest.substr(0, bytes));
      else if (place < limit) lines[place] = rest.substr(0, bytes);
      ++seen;
      rest.remove_prefix(bytes);
    }
  }
  return lines;
}

using Arguments = std::unordered_map<std::string, std::string>;

Arguments arguments_of(const SentencePieceOptions& options) {
  const auto flag = [](bool on) { return on ? "true" : "false"; };
  return {{"model_type", options.kind == SentencePieceKind::bpe ? "bpe" : "unigram"},
          {"vocab_size", std::to_string(options.vocab_size)},
          {"hard_vocab_limit", flag(options.exact_size)},
          {"character_coverage", fmt::format("{}", options.character_coverage)},
          {"normalization_rule_name", options.normalization},
          {"byte_fallback", flag(options.byte_fallback)},
          {"seed_sentencepiece_size", std::to_string(options.seed_pieces)},
          {"max_sentence_length", std::to_string(longest_line)},
          {"num_threads", "16"},  // sums are split among them: another number is another model
          {"pad_id", "0"},
          {"unk_id", "1"},
          {"bos_id", "2"},
          {"eos_id", "3"},
          {"minloglevel", "2"}};  // errors only
}

// Is anything left of these lines once they are normalised? The trainers of subword models end the program when there is
// not; the trainer of characters, which is quick, does not.
bool has_text(std::span<std::string> lines, const SentencePieceOptions& options) {
  Arguments arguments = arguments_of(options);
  arguments["model_type"] = "char";
  arguments["vocab_size"] = "1000";
  arguments["character_coverage"] = "1";
  std::string model;
  Lines iterator(lines, true);
  if (!sentencepiece::SentencePieceTrainer::Train(arguments, &iterator, &model).ok()) return false;
  return from_bytes("sentencepiece", model)->size() > (options.byte_fallback ? 256 + 4 : 4);
}

// others: tokens of the user's vocabulary that are not SentencePiece's. Errors speak of the user's.
void check(const SentencePieceOptions& options, std::int64_t others) {
  const auto in_range = [](std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high) wrong_setting("sentencepiece", name, "is {}, must be between {} and {}", value, low, high);
  };
  in_range("vocab_size", options.vocab_size, (options.byte_fallback ? 256 + 5 : 5) + others, 10'000'000);
  in_range("seed_pieces", options.seed_pieces, 1, 100'000'000);
  in_range("max_sentences", options.max_sentences, 1, 1'000'000'000);
  if (!(options.character_coverage >= 0.98 && options.character_coverage <= 1.0))
    wrong_setting("sentencepiece", "character_coverage", "is {}, must be between 0.98 and 1", options.character_coverage);
  constexpr std::array<std::string_view, 5> known = {"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"};
  if (std::find(known.begin(), known.end(), options.normalization) == known.end())
    wrong_setting("sentencepiece", "normalization", "is '{}', none of {}{}", options.normalization, listed(known),
                  did_you_mean(options.normalization, {known.begin(), known.end()}));
}

// The number in text that follows `before`, or 0.
std::int64_t number_after(std::string_view text, std::string_view before) {
  std::int64_t number = 0;
  if (const std::size_t at = text.find(before); at != std::string_view::npos)
    std::from_chars(text.data() + at + before.size(), text.data() + text.size(), number);
  return number;
}

[[noreturn]] void fail_training(const SentencePieceOptions& options, std::int64_t others, const Status& status) {
  const std::string words = words_of(status);
  if (const std::int64_t most = number_after(words, "value <= "); most > 0)
    wrong_setting("sentencepiece", "vocab_size", "is {}, more than this text can give: at most {}", options.vocab_size, most + others);
  if (const std::int64_t least = number_after(words, " vs "); least > 0)
    wrong_setting("sentencepiece", "vocab_size",
                  "is {}, too small for the characters of this text: at least {}, or a lower character_coverage", options.vocab_size,
                  least + others);
  fail("sentencepiece", "cannot train: {}", words);
}

}  // namespace

TokenizerPtr train_sentencepiece(const LineSource& source, const SentencePieceOptions& options) {
  return train_sentencepiece(source, options, 0);
}

TokenizerPtr train_sentencepiece(const LineSource& source, const SentencePieceOptions& options, std::int64_t others,
                                 const std::string& required) {
  check(options, others);
  std::vector<std::string> lines = collect(source, static_cast<std::size_t>(options.max_sentences));
  const std::span<std::string> all = lines;
  if (!has_text(all.first(std::min<std::size_t>(all.size(), 1000)), options) && !has_text(all, options))
    fail("sentencepiece", "there is no text to learn from");

  Arguments arguments = arguments_of(options);
  arguments["vocab_size"] = std::to_string(options.vocab_size - others);
  std::size_t bytes = 0;
  for (const std::string& line : lines) bytes += line.size() + 1;
  // Normalisation can make text longer, and the ordinary indices of the unigram trainer count up to 2³¹ characters.
  if (bytes > std::size_t{1} << 29) arguments["train_extremely_large_corpus"] = "true";
  // The mark of a word's beginning, which every line has: so the unigram trainer always has a piece to begin with.
  arguments["required_chars"] = required + (options.kind == SentencePieceKind::unigram ? "\u2581" : "");

  Lines iterator(all, false);
  std::string model;
  const Status status = sentencepiece::SentencePieceTrainer::Train(arguments, &iterator, &model);
  if (!status.ok()) fail_training(options, others, status);
#ifdef __GLIBC__
  malloc_trim(0);  // training took many times what is left of it: the system may have that back
#endif
  return from_bytes("sentencepiece", model);
}

TokenizerPtr load_sentencepiece(const std::filesystem::path& path) { return from_bytes(path.string(), read_file(path)); }

std::vector<ScoredPiece> sentencepiece_pieces(const Tokenizer& tokenizer) {
  const auto& model = dynamic_cast<const SentencePieceTokenizer&>(tokenizer).model();
  std::vector<ScoredPiece> pieces;
  for (int id = 0; id < model.GetPieceSize(); ++id)
    if (!model.IsControl(id) && !model.IsUnknown(id) && !model.IsByte(id)) pieces.push_back({model.IdToPiece(id), model.GetScore(id)});
  return pieces;
}

std::string sentencepiece_bytes(const Tokenizer& tokenizer) {
  return dynamic_cast<const SentencePieceTokenizer&>(tokenizer).model().serialized_model_proto();
}

bool has_bytes(const Tokenizer& tokenizer) {
  const auto& model = dynamic_cast<const SentencePieceTokenizer&>(tokenizer).model();
  for (int id = 0; id < model.GetPieceSize(); ++id)
    if (model.IsByte(id)) return true;
  return false;
}

SentencePieceHabits sentencepiece_habits(const Tokenizer& tokenizer) {
  constexpr std::uint64_t bpe = 2;
  SentencePieceHabits habits;
  const std::string file = sentencepiece_bytes(tokenizer);
  for_each_field(file, [&](std::uint64_t field, std::uint64_t, std::string_view part) {
    if (field == 2)  // trainer_spec
      for_each_field(part, [&](std::uint64_t key, std::uint64_t value, std::string_view) {
        if (key == 3) habits.unigram = value != bpe;
      });
    if (field == 3)  // normalizer_spec
      for_each_field(part, [&](std::uint64_t key, std::uint64_t value, std::string_view text) {
        if (key == 2) habits.charsmap = text;
        if (key == 3) habits.space_first = value != 0;
        if (key == 4) habits.single_spaces = value != 0;
      });
  });
  return habits;
}

TokenModelPtr sentencepiece_model(std::string_view source, std::string_view bytes) {
  auto model = processor(source, bytes);
  Vocabulary vocabulary;
  for (int id = 0; id < model->GetPieceSize(); ++id) vocabulary.add(model->IdToPiece(id), id);
  const std::int32_t unknown = model->unk_id();
  return std::make_unique<SentencePieceModel>(std::move(model), std::move(vocabulary), unknown, true, false);
}

TokenModelPtr sentencepiece_model(std::string_view source, std::string_view bytes, Vocabulary vocabulary, std::string_view unknown,
                                  bool target_marks) {
  const std::int32_t id = vocabulary.find(unknown);
  if (id < 0) fail(source, "the vocabulary has no '{}'", unknown);
  return std::make_unique<SentencePieceModel>(processor(source, bytes), std::move(vocabulary), id, false, target_marks);
}

}  // namespace transformer
