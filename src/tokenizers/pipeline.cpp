#include "tokenizers/pipeline.h"

#include <limits>
#include <unordered_map>

#include "io/shared/atomic_file.h"
#include "tokenizers/json_parts.h"

namespace transformer {
namespace {

class PipelineTokenizer final : public Tokenizer {
 public:
  PipelineTokenizer(std::shared_ptr<const Pipeline> pipeline, std::shared_ptr<const PostProcessor> frame)
      : Tokenizer(pipeline->special), shared_(std::move(pipeline)), parts_(*shared_), frame_(std::move(frame)) {
    check_surroundings();
  }

  const std::shared_ptr<const Pipeline>& shared() const { return shared_; }
  std::string_view kind() const override { return "huggingface"; }
  std::int64_t size() const override { return std::max(parts_.model->vocabulary().size(), parts_.added.vocabulary().size()); }
  bool is_special(std::int32_t id) const override { return parts_.added.is_special(id); }
  std::int32_t id(std::string_view piece) const override {
    const std::int32_t added = parts_.added.vocabulary().find(piece), known = added >= 0 ? added : parts_.model->vocabulary().find(piece);
    return known >= 0 ? known : unk();
  }

  void save(const std::filesystem::path& path) const override {
    if (parts_.main_file.empty()) fail(path.string(), "this tokenizer is made of several files; save it into a folder");
    write(path, parts_.files.at(parts_.main_file));
  }
  void save_into(const std::filesystem::path& folder, const std::string&) const override {
    for (const auto& [name, bytes] : parts_.files) write(folder / name, bytes);
  }

 private:
  // What is put around one text or two must be in the vocabulary: its ids come from the file too.
  void check_surroundings() const {
    if (frame_ == nullptr) return;
    for (const std::size_t texts : {1, 2})
      for (const EncodedPart& part : frame_->process(std::vector<EncodedPart>(texts), true))
        for (std::size_t i = 0; i < part.encoding.size(); ++i)
          if (const std::int32_t id = part.encoding.ids[i]; id < 0 || id >= size())
            fail("post_processor", "'{}' has the id {}, but the vocabulary has {} tokens", part.encoding.tokens[i], id, size());
  }

  static void write(const std::filesystem::path& path, const std::string& bytes) {
    AtomicFile file(path);
    file.write(bytes);
    file.commit();
  }

  PieceList cut(std::string_view text) const {
    if (text.size() > std::numeric_limits<std::uint32_t>::max() / 4)
      fail("tokenizer", "a text of {} bytes is too long for one piece", text.size());
    PieceList list = parts_.added.find(text, parts_.normalizer.get());
    if (parts_.pre_tokenizer != nullptr) parts_.pre_tokenizer->cut(list);
    return list;
  }

  // Calls f(token, piece) for every token, in order. Words come again and again in a long text: their tokens are kept.
  template <class F>
  void for_each_token(const PieceList& list, F&& f) const {
    constexpr std::size_t longest_kept = 64, fewest_pieces = 32;
    std::vector<ModelToken> tokens;
    std::unordered_map<std::string_view, std::pair<std::size_t, std::size_t>> kept;  // to ranges of tokens
    for (const TextPiece& piece : list.pieces) {
      const std::string_view text = list.view(piece);
      if (piece.id >= 0) {
        f(ModelToken{piece.id, 0, piece.end - piece.begin, true}, piece);
        continue;
      }
      if (text.empty()) continue;
      const bool keep = text.size() <= longest_kept && list.pieces.size() >= fewest_pieces;
      if (!keep && kept.empty()) tokens.clear();
      std::pair<std::size_t, std::size_t> range{tokens.size(), 0};
      const auto found = keep ? kept.find(text) : kept.end();
      if (found != kept.end()) {
        range = found->second;
      } else {
        parts_.model->tokenize(text, tokens);
        range.second = tokens.size();
        if (keep) kept.emplace(text, range);
      }
      for (std::size_t i = range.first; i < range.second; ++i) f(tokens[i], piece);
    }
  }

  std::vector<std::int32_t> encode_valid(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    for_each_token(cut(text), [&](const ModelToken& token, const TextPiece&) { ids.push_back(token.id); });
    return ids;
  }

  Encoding tokenize_valid(std::string_view text) const override {
    const PieceList list = cut(text);
    Encoding out;
    for_each_token(list, [&](const ModelToken& token, const TextPiece& piece) {
      out.ids.push_back(token.id);
      out.tokens.emplace_back(token.as_text ? list.view(piece).substr(token.begin, token.end - token.begin)
                                            : parts_.model->vocabulary().token(token.id));
      const std::uint32_t begin = piece.begin + token.begin, end = std::max(piece.begin + token.end, begin + 1);
      out.places.push_back({list.text.span(begin).begin, list.text.span(end - 1).end});
    });
    out.type_ids.assign(out.size(), 0);
    out.added.assign(out.size(), 0);
    return out;
  }

  Encoding surround(std::vector<Encoding> texts, std::span<const std::string_view> originals, bool special_tokens) const override {
    if (frame_ == nullptr) return Tokenizer::surround(std::move(texts), originals, special_tokens);
    std::vector<EncodedPart> encoded;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i].type_ids.assign(texts[i].size(), static_cast<std::int32_t>(i));
      encoded.push_back({std::move(texts[i]), originals[i]});
    }
    Encoding out;
    for (EncodedPart& part : frame_->process(std::move(encoded), special_tokens)) append(out, std::move(part.encoding));
    return out;
  }

  class Stream final : public Detokenizer {
   public:
    explicit Stream(const PipelineTokenizer& tokenizer)
        : tokenizer_(tokenizer), steps_(tokenizer.parts_.decoder(std::make_unique<DecodedText>(text_))) {}
    void push(std::int32_t id, std::string& out) override {
      if (const std::string piece = tokenizer_.piece_of(id); !piece.empty()) {  // a gap in the vocabulary has no text
        steps_->text(piece);
        steps_->end();
      }
      move_to(out);
    }
    void finish(std::string& out) override {
      steps_->finish();
      move_to(out);
    }

   private:
    void move_to(std::string& out) {
      out += text_;
      text_.clear();
    }
    const PipelineTokenizer& tokenizer_;
    std::string text_;
    DecodeStepPtr steps_;
  };
  std::unique_ptr<Detokenizer> detokenizer() const override { return std::make_unique<Stream>(*this); }

  bool has_no_text(std::int32_t id) const override { return id >= size(); }
  std::string piece_of(std::int32_t id) const override {
    const std::string_view added = parts_.added.token(id);
    return std::string(!added.empty() ? added : parts_.model->vocabulary().token(id));
  }

  std::shared_ptr<const Pipeline> shared_;
  const Pipeline& parts_;
  std::shared_ptr<const PostProcessor> frame_;  // may be null
};

// Names the part in an error about it.
auto in_part(const nlohmann::json& file, const char* key, auto&& read) {
  static const nlohmann::json null;
  const auto part = file.find(key);
  try {
    return read(part == file.end() ? null : *part);
  } catch (const Error& e) {
    fail(key, "{}", e.what());
  }
}

}  // namespace

TokenizerPtr make_tokenizer(Pipeline pipeline) {
  const auto shared = std::make_shared<const Pipeline>(std::move(pipeline));
  return std::make_shared<PipelineTokenizer>(shared, std::shared_ptr<const PostProcessor>(shared, shared->post_processor.get()));
}

const Pipeline* pipeline_of(const Tokenizer& tokenizer) {
  const auto* made = dynamic_cast<const PipelineTokenizer*>(&tokenizer);
  return made != nullptr ? made->shared().get() : nullptr;
}

TokenizerPtr with_frame(const Tokenizer& tokenizer, PostProcessorPtr frame) {
  return std::make_shared<PipelineTokenizer>(dynamic_cast<const PipelineTokenizer&>(tokenizer).shared(), std::move(frame));
}

Pipeline read_pipeline(const nlohmann::json& file) {
  if (!file.is_object()) fail("tokenizer", "expected an object, got {}", file.type_name());
  const std::vector<std::string> known = {"version",       "truncation",     "padding", "added_tokens", "normalizer",
                                          "pre_tokenizer", "post_processor", "decoder", "model"};
  for (const auto& [key, value] : file.items())
    if (std::find(known.begin(), known.end(), key) == known.end()) fail("tokenizer", "'{}' is not known{}", key, did_you_mean(key, known));
  Pipeline parts;
  parts.model = in_part(file, "model", read_token_model);
  parts.normalizer = in_part(file, "normalizer", [](const nlohmann::json& part) { return read_normalizer(part); });
  parts.pre_tokenizer = in_part(file, "pre_tokenizer", [](const nlohmann::json& part) { return read_pre_tokenizer(part); });
  parts.post_processor = in_part(file, "post_processor", [](const nlohmann::json& part) { return read_post_processor(part); });
  parts.decoder = in_part(file, "decoder", [](const nlohmann::json& part) { return read_decoder(part); });
  parts.added = in_part(file, "added_tokens", [&](const nlohmann::json& part) {
    std::vector<AddedToken> tokens;
    if (!part.is_null()) detail::read_value(part, tokens, "");
    return AddedTokens(std::move(tokens), parts.model->vocabulary(), parts.normalizer.get());
  });
  parts.special.unk = parts.model->unknown();
  return parts;
}

}  // namespace transformer
