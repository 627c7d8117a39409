#include <map>
#include <ostream>

#include "io/shared/chunks.h"
#include "transformer/core/setting_error.h"
#include "transformer/predict/generator.h"

namespace transformer {
namespace {

// Pieces of several sequences, written sequence after sequence: those of the first that is not finished at once, those of the
// others when it is their turn.
class InOrder {
 public:
  explicit InOrder(std::ostream& out) : out_(out) {}

  void add(std::size_t sequence, std::string_view piece, bool last) {
    if (sequence == turn_) {
      write(piece, last);
    } else {
      Waiting& w = waiting_[sequence];
      w.text += piece;
      w.done |= last;
      return;
    }
    if (!last) return;
    for (auto next = waiting_.find(++turn_); next != waiting_.end(); next = waiting_.find(++turn_)) {
      write(next->second.text, next->second.done);
      const bool done = next->second.done;
      waiting_.erase(next);
      if (!done) break;
    }
  }

 private:
  struct Waiting {
    std::string text;
    bool done = false;
  };

  void write(std::string_view piece, bool last) {
    if (piece.empty() && !last) return;
    out_ << piece;
    if (last) out_ << '\n';
    if (!out_.flush()) fail("output", "cannot be written: is the disk full?");
  }

  std::ostream& out_;
  std::size_t turn_ = 0;
  std::map<std::size_t, Waiting> waiting_;
};

}  // namespace

void generate_stream(Context& ctx, const Generator& generator, const PromptStream& prompts, std::ostream& out,
                     const GenerationConfig& config, const GenerateOptions& options) {
  if (prompts.batch < 1) wrong_setting("generate", "batch", "is {}: expected 1 or more", prompts.batch);
  check(config);
  const bool text = generator.tokenizers().target != nullptr;
  const auto each = static_cast<std::size_t>(config.num_return_sequences);
  auto stopped = [&] { return prompts.stopped && prompts.stopped(); };
  std::vector<std::string> chunk;
  const LineSource left = until_end(prompts.next);
  while (!stopped() && read_chunk(left, prompts.ready, prompts.batch, chunk)) {
    std::vector<std::vector<std::int32_t>> ids;
    for (const std::string& prompt : chunk) ids.push_back(prompts.ids(prompt));
    InOrder in_order(out);
    std::vector<std::uint8_t> begun(ids.size() * each, 0);
    GenerateOptions call = options;
    call.on_token = [&](const GeneratedToken& token) {
      const bool end = (options.on_token && options.on_token(token)) || stopped();
      const std::size_t sequence = token.prompt * each + token.sequence;
      const std::string number = text ? "" : fmt::format("{}{}", begun[sequence] != 0 ? " " : "", token.id);
      begun[sequence] = 1;
      in_order.add(sequence, text ? token.text : std::string_view(number), end || token.finish.has_value());
      return end;
    };
    generator.generate(ctx, ids, config, call);
  }
}

}  // namespace transformer
