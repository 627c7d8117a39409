#include "transformer/generate/json_constraint.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "generate/json_machine.h"
#include "generate/softmax_row.h"
#include "tokenizers/shared/token_bytes.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

// The tokens of a vocabulary, in the order of their bytes: those with a common beginning stand together.
struct TokenTable {
  std::vector<std::string> bytes;  // by id
  std::vector<std::int32_t> order;

  explicit TokenTable(const Tokenizer& tokenizer) : bytes(token_bytes(tokenizer)) {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (!bytes[i].empty()) order.push_back(static_cast<std::int32_t>(i));
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return at(a) < at(b); });
  }
  const std::string& at(std::int32_t id) const { return bytes[static_cast<std::size_t>(id)]; }
};

// Made once for each tokenizer that is in use.
std::shared_ptr<const TokenTable> table_of(const TokenizerPtr& tokenizer) {
  static std::mutex mutex;
  static std::map<const Tokenizer*, std::pair<std::weak_ptr<const Tokenizer>, std::shared_ptr<const TokenTable>>> tables;
  const std::lock_guard lock(mutex);
  std::erase_if(tables, [](const auto& entry) { return entry.second.first.expired(); });
  auto& [owner, table] = tables[tokenizer.get()];
  if (table == nullptr) owner = tokenizer, table = std::make_shared<const TokenTable>(*tokenizer);
  return table;
}

class Constraint {
 public:
  Constraint(const nlohmann::ordered_json& schema, const TokenizerPtr& tokenizer, std::vector<std::int32_t> eos)
      : machine_(schema), table_(table_of(tokenizer)), eos_(std::move(eos)) {
    const auto first = tokens_after(machine_.begin());
    if (std::find(first->begin(), first->end(), 1) == first->end())
      fail("JSON schema", "the model's vocabulary has no token that such an answer begins with");
  }

  void operator()(const LogitsRow& row, std::span<float> logits) {
    JsonMachine::States states = machine_.begin();
    for (const std::int32_t id : row.ids.subspan(static_cast<std::size_t>(row.prompt)))
      if (id >= 0 && id < std::ssize(table_->bytes))
        for (const char c : table_->at(id)) states = machine_.next(states, static_cast<std::uint8_t>(c));
    const std::shared_ptr<const std::vector<std::uint8_t>> allowed = tokens_after(states);
    const bool complete = machine_.is_complete(states);
    if (!complete && std::find(allowed->begin(), allowed->end(), 1) == allowed->end())
      fail("JSON schema", "the model's vocabulary has no token that the answer could go on with: it cannot write what the schema asks for");
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const bool end = std::find(eos_.begin(), eos_.end(), static_cast<std::int32_t>(i)) != eos_.end();
      if (end ? !complete : i >= allowed->size() || (*allowed)[i] == 0) logits[i] = never;
    }
  }

 private:
  // For each token whether it can come. Texts come back to the same states again and again, as between the characters of a string.
  std::shared_ptr<const std::vector<std::uint8_t>> tokens_after(const JsonMachine::States& states) {
    {
      const std::lock_guard lock(mutex_);
      for (const Known& k : known_)
        if (k.states == states) return k.allowed;
    }
    auto allowed = std::make_shared<std::vector<std::uint8_t>>(table_->bytes.size(), 0);
    std::vector<JsonMachine::States> path{states};  // after each byte of the token before
    std::string_view last;
    for (const std::int32_t id : table_->order) {
      const std::string& bytes = table_->at(id);
      const std::size_t common = static_cast<std::size_t>(std::mismatch(last.begin(), last.end(), bytes.begin(), bytes.end()).first -
                                                          last.begin());
      path.resize(std::min(path.size(), common + 1));
      // Where the common beginning is shorter than what was followed, the rest is followed anew; where it cannot come, neither can this.
      while (path.size() <= bytes.size() && !path.back().empty())
        path.push_back(machine_.next(path.back(), static_cast<std::uint8_t>(bytes[path.size() - 1])));
      (*allowed)[static_cast<std::size_t>(id)] = path.size() == bytes.size() + 1 && !path.back().empty() ? 1 : 0;
      last = bytes;
    }
    const std::lock_guard lock(mutex_);
    constexpr std::size_t most = 64;
    if (known_.size() == most) known_.erase(known_.begin());
    known_.push_back({states, allowed});
    return allowed;
  }

  struct Known {
    JsonMachine::States states;
    std::shared_ptr<const std::vector<std::uint8_t>> allowed;
  };
  JsonMachine machine_;
  std::shared_ptr<const TokenTable> table_;
  std::vector<std::int32_t> eos_;
  std::mutex mutex_;
  std::vector<Known> known_;
};

}  // namespace

LogitsProcessor json_constraint(const nlohmann::ordered_json& schema, const TokenizerPtr& tokenizer, std::vector<std::int32_t> eos) {
  if (eos.empty()) fail("JSON schema", "the model has no end token: it could not end an answer");
  const auto constraint = std::make_shared<Constraint>(schema, tokenizer, std::move(eos));
  return [constraint](const LogitsRow& row, std::span<float> logits) { (*constraint)(row, logits); };
}

}  // namespace transformer
