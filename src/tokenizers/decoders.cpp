#include "tokenizers/decoders.h"

#include "io/shared/characters.h"
#include "io/shared/utf8.h"
#include "tokenizers/aligned_text.h"
#include "tokenizers/byte_alphabet.h"
#include "tokenizers/json_parts.h"

namespace transformer {
namespace {

constexpr std::string_view replacement_character = "\uFFFD";

// A step that wants whole tokens.
class TokenStep : public DecodeStep {
 public:
  explicit TokenStep(DecodeStepPtr next) : next_(std::move(next)) {}
  void text(std::string_view part) final { token_ += part; }
  void end() final {
    take(std::move(token_));
    token_.clear();
  }
  void finish() override { next_->finish(); }

 protected:
  virtual void take(std::string token) = 0;
  void send(std::string_view token) {
    next_->text(token);
    next_->end();
  }
  DecodeStepPtr next_;

 private:
  std::string token_;
};

template <class Step, class... Args>
Decoder decoder(Args... args) {
  return [=](DecodeStepPtr next) -> DecodeStepPtr { return std::make_unique<Step>(std::move(next), args...); };
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

// Bytes that will be text once more of them come: an unfinished character at the end.
std::size_t unfinished(std::string_view bytes) {
  for (std::size_t size = 1; size <= 3 && size <= bytes.size(); ++size) {
    const std::string tail(bytes.substr(bytes.size() - size));
    if (continues_character(tail[0])) continue;
    if (static_cast<unsigned char>(tail[0]) < 0xC0 || character_size(tail[0]) <= size) return 0;
    const std::size_t missing = character_size(tail[0]) - size;
    return is_valid_utf8(tail + std::string(missing, '\x80')) || is_valid_utf8(tail + std::string(missing, '\xBF')) ? size : 0;
  }
  return 0;
}

// Characters of the byte alphabet to bytes, and those to text; all tokens become one.
class ByteLevelStep final : public TokenStep {
 public:
  using TokenStep::TokenStep;
  void finish() override {
    flush(0);
    next_->end();
    next_->finish();
  }

 private:
  void take(std::string token) override {
    const std::size_t before = bytes_.size();
    for (std::size_t i = 0; i < token.size();) {
      const int byte = byte_of(next_character(token, i));
      if (byte < 0) {  // not of the alphabet: an added token, as it is
        bytes_.resize(before);
        bytes_ += token;
        break;
      }
      bytes_ += static_cast<char>(byte);
    }
    flush(unfinished(bytes_));
  }
  void flush(std::size_t held) {
    std::int64_t ignored = 0;
    next_->text(sanitize_utf8(std::string_view(bytes_).substr(0, bytes_.size() - held), ignored));
    bytes_.erase(0, bytes_.size() - held);
  }
  std::string bytes_;
};

// <0xE5> is a byte. A row of them is text if all of it is valid, else a U+FFFD for each.
class ByteFallbackStep final : public TokenStep {
 public:
  using TokenStep::TokenStep;
  void finish() override {
    flush();
    next_->finish();
  }

 private:
  static int byte_in(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    int value = 0;
    for (const char c : token.substr(3, 2)) {
      const std::size_t digit = std::string_view("0123456789ABCDEF0123456789abcdef").find(c);
      if (digit == std::string_view::npos) return -1;
      value = value * 16 + static_cast<int>(digit % 16);
    }
    return value;
  }
  void take(std::string token) override {
    if (const int byte = byte_in(token); byte >= 0) return void(bytes_ += static_cast<char>(byte));
    flush();
    send(token);
  }
  void flush() {
    if (bytes_.empty()) return;
    if (is_valid_utf8(bytes_)) send(bytes_);
    else
      for (std::size_t i = 0; i < bytes_.size(); ++i) send(replacement_character);
    bytes_.clear();
  }
  std::string bytes_;
};

class WordPieceStep final : public TokenStep {
 public:
  WordPieceStep(DecodeStepPtr next, std::string prefix, bool cleanup)
      : TokenStep(std::move(next)), prefix_(std::move(prefix)), cleanup_(cleanup) {}

 private:
  void take(std::string token) override {
    if (!std::exchange(first_, false)) {
      if (token.starts_with(prefix_)) token.erase(0, prefix_.size());
      else token.insert(0, " ");
    }
    if (cleanup_) {
      static constexpr std::pair<std::string_view, std::string_view> tidied[] = {
          {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
          {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
      for (const auto& [from, to] : tidied) replace_all(token, from, to);
    }
    send(token);
  }
  std::string prefix_;
  bool cleanup_, first_ = true;
};

class MetaspaceStep final : public TokenStep {
 public:
  MetaspaceStep(DecodeStepPtr next, std::string mark, bool prefixed)
      : TokenStep(std::move(next)), mark_(std::move(mark)), prefixed_(prefixed) {}

 private:
  void take(std::string token) override {
    replace_all(token, mark_, std::exchange(first_, false) && prefixed_ ? "" : " ");
    send(token);
  }
  std::string mark_;
  bool prefixed_, first_ = true;
};

// The mark at the end of a word becomes a space, but not behind the last one.
class SuffixStep final : public TokenStep {
 public:
  SuffixStep(DecodeStepPtr next, std::string suffix) : TokenStep(std::move(next)), suffix_(std::move(suffix)) {}
  void finish() override {
    if (held_) put("");
    next_->finish();
  }

 private:
  void take(std::string token) override {
    if (held_) put(" ");
    held_ = std::move(token);
  }
  void put(std::string_view replacement) {
    replace_all(*held_, suffix_, replacement);
    send(*held_);
    held_.reset();
  }
  std::string suffix_;
  std::optional<std::string> held_;
};

class ReplaceStep final : public TokenStep {
 public:
  ReplaceStep(DecodeStepPtr next, std::shared_ptr<const Regex> regex, std::string content)
      : TokenStep(std::move(next)), regex_(std::move(regex)), content_(std::move(content)) {}

 private:
  void take(std::string token) override {
    std::string out;
    for (const PatternMatch& part : regex_->find_all(token)) {
      out += part.found ? std::string_view(content_) : std::string_view(token).substr(part.begin, part.end - part.begin);
      if (out.size() > 4096 + growth_limit * token.size())
        fail("tokenizer", "a token becomes {} bytes long when it is decoded", out.size());
    }
    send(out);
  }
  std::shared_ptr<const Regex> regex_;
  std::string content_;
};

// All tokens are one.
class FuseStep final : public DecodeStep {
 public:
  explicit FuseStep(DecodeStepPtr next) : next_(std::move(next)) {}
  void text(std::string_view part) override { next_->text(part); }
  void end() override {}
  void finish() override {
    next_->end();
    next_->finish();
  }

 private:
  DecodeStepPtr next_;
};

struct StripCharacterConfig {
  std::string content = " ";
  std::int64_t start = 0, stop = 0;
  static void visit(auto& self, auto&& field) {
    field("content", self.content, "the character that goes");
    field("start", self.start, "how many at the beginning of a token");
    field("stop", self.stop, "how many at its end");
  }
};

class StripStep final : public DecodeStep {
 public:
  StripStep(DecodeStepPtr next, StripCharacterConfig config) : next_(std::move(next)), config_(std::move(config)) {
    content_ = one_character(config_.content, "content");
  }
  void text(std::string_view part) override {
    std::string out;
    for (std::size_t i = 0; i < part.size();) {
      const char32_t c = next_character(part, i);
      if (at_start_ && c == content_ && dropped_ < config_.start) {
        ++dropped_;
        continue;
      }
      at_start_ = false;
      if (c == content_ && held_ < config_.stop) {
        ++held_;
        continue;
      }
      if (c != content_) put_held(out);
      append_character(out, c);
    }
    next_->text(out);
  }
  void end() override {  // what is held goes
    held_ = dropped_ = 0;
    at_start_ = true;
    next_->end();
  }
  void finish() override { next_->finish(); }

 private:
  void put_held(std::string& out) {
    for (; held_ > 0; --held_) append_character(out, content_);
  }
  DecodeStepPtr next_;
  StripCharacterConfig config_;
  char32_t content_ = ' ';
  std::int64_t dropped_ = 0, held_ = 0;
  bool at_start_ = true;
};

// Without any decoder: tokens with spaces between them.
class SpacesStep final : public TokenStep {
 public:
  using TokenStep::TokenStep;

 private:
  void take(std::string token) override { send(std::exchange(first_, false) ? token : " " + token); }
  bool first_ = true;
};

struct WordPieceConfig {
  std::string prefix = "##";
  bool cleanup = true;
  static void visit(auto& self, auto&& field) {
    field("prefix", self.prefix, "what the tokens inside a word begin with");
    field("cleanup", self.cleanup, "no space before punctuation");
  }
};
struct SuffixConfig {
  std::string suffix = "</w>";
  static void visit(auto& self, auto&& field) { field("suffix", self.suffix, "what a word ends with"); }
};

}  // namespace

Decoder read_decoder(const nlohmann::json& part, int depth) {
  if (part.is_null()) return decoder<SpacesStep>();
  const std::string type = part_type(part);
  if (type == "Sequence") {
    std::vector<Decoder> steps;
    for (const nlohmann::json& step : part_list(part, "decoders", depth)) steps.push_back(read_decoder(step, depth + 1));
    return [steps](DecodeStepPtr next) {
      for (auto step = steps.rbegin(); step != steps.rend(); ++step) next = (*step)(std::move(next));
      return next;
    };
  }
  if (type == "ByteLevel") return read_part<ByteLevelConfig>(part), decoder<ByteLevelStep>();
  if (type == "ByteFallback") return read_part<NoSettings>(part), decoder<ByteFallbackStep>();
  if (type == "Fuse") return read_part<NoSettings>(part), decoder<FuseStep>();
  if (type == "BPEDecoder") return decoder<SuffixStep>(read_part<SuffixConfig>(part).suffix);
  if (type == "WordPiece") {
    const auto config = read_part<WordPieceConfig>(part);
    return decoder<WordPieceStep>(config.prefix, config.cleanup);
  }
  if (type == "Metaspace") {
    const auto config = read_part<MetaspaceConfig>(part);
    one_character(config.replacement, "replacement");
    return decoder<MetaspaceStep>(config.replacement, config.scheme() != PrependScheme::never);
  }
  if (type == "Strip") {
    const auto config = read_part<StripCharacterConfig>(part);
    one_character(config.content, "content");
    return decoder<StripStep>(config);
  }
  if (type == "Replace") {
    const auto config = read_part<ReplaceConfig>(part);
    return decoder<ReplaceStep>(std::shared_ptr<const Regex>(std::make_shared<Regex>(compile(config.pattern))), config.content);
  }
  unknown_part("decoder", type,
               {"Sequence", "ByteLevel", "WordPiece", "Metaspace", "BPEDecoder", "ByteFallback", "Fuse", "Strip", "Replace"});
}

}  // namespace transformer
