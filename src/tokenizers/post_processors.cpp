#include "tokenizers/post_processors.h"

#include <algorithm>

#include "io/shared/characters.h"
#include "tokenizers/json_parts.h"

namespace transformer {

void append(Encoding& to, Encoding&& from) {
  const auto behind = [](auto& a, auto& b) { a.insert(a.end(), std::make_move_iterator(b.begin()), std::make_move_iterator(b.end())); };
  behind(to.ids, from.ids);
  behind(to.tokens, from.tokens);
  behind(to.places, from.places);
  behind(to.type_ids, from.type_ids);
  behind(to.added, from.added);
}

namespace {

using Parts = std::vector<EncodedPart>;

template <class F>
class FunctionPostProcessor final : public PostProcessor {
 public:
  explicit FunctionPostProcessor(F function) : function_(std::move(function)) {}
  Parts process(Parts parts, bool special_tokens) const override { return function_(std::move(parts), special_tokens); }

 private:
  F function_;
};
template <class F>
PostProcessorPtr post_processor(F function) {
  return std::make_unique<FunctionPostProcessor<F>>(std::move(function));
}

void set_type(Encoding& encoding, std::int32_t type) { encoding.type_ids.assign(encoding.size(), type); }

struct NamedId {
  std::string token;
  std::int32_t id = 0;
};

EncodedPart special_tokens_part(const std::vector<NamedId>& tokens, std::int32_t type) {
  EncodedPart part;
  for (const NamedId& token : tokens) {
    part.encoding.ids.push_back(token.id);
    part.encoding.tokens.push_back(token.token);
  }
  part.encoding.places.resize(tokens.size());
  part.encoding.type_ids.assign(tokens.size(), type);
  part.encoding.added.assign(tokens.size(), 1);
  return part;
}

// Byte-level tokens contain the space before a word: the place of a token is without it.
void trim(EncodedPart& part, bool add_prefix_space) {
  const auto is_space = [](char32_t c) { return c == 0x120 || is_white_space(c); };  // Ġ: the space in the byte alphabet
  for (std::size_t i = 0; i < part.encoding.size(); ++i) {
    const std::string& token = part.encoding.tokens[i];
    TokenPlace& place = part.encoding.places[i];
    std::int64_t leading = 0, trailing = 0;
    for (std::size_t at = 0; at < token.size() && is_space(next_character(token, at));) ++leading;
    for (std::size_t at = token.size(); at > 0 && is_space(previous_character(token, at));) ++trailing;
    // The one space before the first word was put there by the tokenizer.
    if ((i == 0 || place.begin == 0) && add_prefix_space && leading == 1) leading = 0;
    const auto size = static_cast<std::int64_t>(part.original.size());
    for (; leading > 0 && place.begin < std::min(place.end, size); --leading)
      place.begin += static_cast<std::int64_t>(character_size(part.original[static_cast<std::size_t>(place.begin)]));
    place.begin = std::min(place.begin, place.end);
    for (; trailing > 0 && place.end > place.begin && place.end <= size; --trailing) do
        --place.end;
      while (place.end > place.begin && continues_character(part.original[static_cast<std::size_t>(place.end)]));
  }
}

// ["[SEP]", 102]
NamedId read_named_id(const nlohmann::json& part, const char* key) {
  const auto pair = part.find(key);
  if (pair == part.end() || !pair->is_array() || pair->size() != 2 || !(*pair)[0].is_string())
    fail("tokenizer", "'{}' must be a token and its id", key);
  NamedId out{(*pair)[0].get<std::string>()};
  detail::read_value((*pair)[1], out.id, key);
  return out;
}

nlohmann::json without(const nlohmann::json& part, std::initializer_list<const char*> keys) {
  nlohmann::json rest = part;
  for (const char* key : keys) rest.erase(key);
  return rest;
}

// [CLS] A [SEP] B [SEP]; RoBERTa has one [SEP] more before B, and all types 0.
PostProcessorPtr bert(const nlohmann::json& part) {
  read_part<NoSettings>(without(part, {"sep", "cls"}));
  return post_processor([sep = read_named_id(part, "sep"), cls = read_named_id(part, "cls")](Parts parts, bool special_tokens) {
    if (!special_tokens) return parts;
    Parts out;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto type = static_cast<std::int32_t>(i);
      if (i == 0) out.push_back(special_tokens_part({cls}, 0));
      set_type(parts[i].encoding, type);
      out.push_back(std::move(parts[i]));
      out.push_back(special_tokens_part({sep}, type));
    }
    return out;
  });
}

struct RobertaConfig {
  bool trim_offsets = true, add_prefix_space = true;
  static void visit(auto& self, auto&& field) {
    field("trim_offsets", self.trim_offsets, "places without white space");
    field("add_prefix_space", self.add_prefix_space, "the tokenizer puts a space before the text");
  }
};

PostProcessorPtr roberta(const nlohmann::json& part) {
  const auto config = read_part<RobertaConfig>(without(part, {"sep", "cls"}));
  return post_processor([config, sep = read_named_id(part, "sep"), cls = read_named_id(part, "cls")](Parts parts, bool special_tokens) {
    Parts out;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (config.trim_offsets) trim(parts[i], config.add_prefix_space);
      set_type(parts[i].encoding, 0);
      if (special_tokens) out.push_back(special_tokens_part({i == 0 ? cls : sep}, 0));
      out.push_back(std::move(parts[i]));
      if (special_tokens) out.push_back(special_tokens_part({sep}, 0));
    }
    return out;
  });
}

// One step of a template: a text, or special tokens.
struct TemplateStep {
  int text = -1;  // 0: A, 1: B
  std::vector<NamedId> special;
  std::int32_t type = 0;
};

class Template final : public PostProcessor {
 public:
  explicit Template(const nlohmann::json& part) {
    read_part<NoSettings>(without(part, {"single", "pair", "special_tokens"}));
    const auto tokens = part.find("special_tokens");
    const nlohmann::json none = nlohmann::json::object();
    const nlohmann::json& known = tokens == part.end() ? none : *tokens;
    if (!known.is_object()) fail("TemplateProcessing", "'special_tokens' must be an object");
    single_ = read(part, "single", known);
    pair_ = read(part, "pair", known);
    if (std::any_of(single_.begin(), single_.end(), [](const TemplateStep& step) { return step.text == 1; }))
      fail("TemplateProcessing", "the template of one text uses a second one");
  }

  Parts process(Parts parts, bool special_tokens) const override {
    Parts out;
    for (const TemplateStep& step : parts.size() == 2 ? pair_ : single_) {
      if (step.text < 0) {
        if (special_tokens) out.push_back(special_tokens_part(step.special, step.type));
        continue;
      }
      if (static_cast<std::size_t>(step.text) >= parts.size()) fail("TemplateProcessing", "the processors before it leave no text");
      out.push_back(parts[static_cast<std::size_t>(step.text)]);
      set_type(out.back().encoding, step.type);
    }
    return out;
  }

 private:
  struct Piece {
    std::string id;
    std::int32_t type_id = 0;
    static void visit(auto& self, auto&& field) {
      field("id", self.id, "which text or special token");
      field("type_id", self.type_id, "its type");
    }
  };
  struct Step {
    std::optional<Piece> sequence = std::nullopt, special = std::nullopt;
    static void visit(auto& self, auto&& field) {
      field("Sequence", self.sequence, "a text");
      field("SpecialToken", self.special, "special tokens");
    }
  };
  struct Special {
    std::string id;
    std::vector<std::int32_t> ids = {};
    std::vector<std::string> tokens = {};
    static void visit(auto& self, auto&& field) {
      field("id", self.id, "the name used in templates");
      field("ids", self.ids, "the ids it stands for");
      field("tokens", self.tokens, "their names");
    }
  };

  static std::vector<TemplateStep> read(const nlohmann::json& part, const char* key, const nlohmann::json& known) {
    constexpr std::size_t longest = 256;
    const auto list = part.find(key);
    if (list == part.end() || !list->is_array() || list->size() > longest)
      fail("TemplateProcessing", "'{}' must be a list of at most {} steps", key, longest);
    std::vector<TemplateStep> steps;
    for (const nlohmann::json& item : *list) {
      Step step;
      from_json(item, step);
      if (step.sequence.has_value() == step.special.has_value())
        fail("TemplateProcessing", "a step of '{}' must be a Sequence or a SpecialToken", key);
      if (step.sequence) {
        if (step.sequence->id != "A" && step.sequence->id != "B")
          fail("TemplateProcessing", "there is no Sequence '{}'", step.sequence->id);
        steps.push_back({step.sequence->id == "A" ? 0 : 1, {}, step.sequence->type_id});
        continue;
      }
      const auto found = known.find(step.special->id);
      if (found == known.end()) fail("TemplateProcessing", "'{}' is not among the special_tokens", step.special->id);
      Special special;
      from_json(*found, special);
      if (special.ids.size() != special.tokens.size())
        fail("TemplateProcessing", "'{}' has {} ids for {} tokens", step.special->id, special.ids.size(), special.tokens.size());
      TemplateStep out{-1, {}, step.special->type_id};
      for (std::size_t i = 0; i < special.ids.size(); ++i) out.special.push_back({special.tokens[i], special.ids[i]});
      steps.push_back(std::move(out));
    }
    return steps;
  }

  std::vector<TemplateStep> single_, pair_;
};

}  // namespace

PostProcessorPtr read_post_processor(const nlohmann::json& part, int depth) {
  if (part.is_null()) return nullptr;
  const std::string type = part_type(part);
  if (type == "Sequence") {
    std::vector<std::shared_ptr<const PostProcessor>> steps;
    for (const nlohmann::json& step : part_list(part, "processors", depth))
      if (PostProcessorPtr read = read_post_processor(step, depth + 1)) steps.push_back(std::move(read));
    return post_processor([steps](Parts parts, bool special_tokens) {
      for (const auto& step : steps) parts = step->process(std::move(parts), special_tokens);
      return parts;
    });
  }
  if (type == "BertProcessing") return bert(part);
  if (type == "RobertaProcessing") return roberta(part);
  if (type == "TemplateProcessing") return std::make_unique<Template>(part);
  if (type == "ByteLevel") {
    return post_processor([config = read_part<ByteLevelConfig>(part)](Parts parts, bool) {
      if (config.trim_offsets)
        for (EncodedPart& one : parts) trim(one, config.add_prefix_space);
      return parts;
    });
  }
  unknown_part("post-processor", type, {"Sequence", "TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel"});
}

}  // namespace transformer
