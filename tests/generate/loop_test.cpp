// Sources that join and leave a batch while it is under way.
#include "generate/shared/loop.h"
#include "support/op_check.h"

#include <gtest/gtest.h>

#include "generate/shared/call.h"
#include "generate/shared/causal.h"
#include "predict/model_folder.h"
#include "transformer/models/encoder_decoder_model.h"
#include "transformer/predict/generator.h"
#include "transformer/predict/translator.h"

namespace transformer::test {
namespace {

using LoopIds = std::vector<std::int32_t>;

// A source of so many pseudo-random tokens.
LoopIds some_ids(std::size_t count, std::uint32_t seed) {
  LoopIds ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<std::int32_t>(3 + (seed = seed * 1664525U + 1013904223U) / 65536U % 90U));
  return ids;
}

struct LoopRequest {
  LoopIds prompt;
  GenerationConfig config;
  std::uint64_t seed;
};

std::vector<LoopRequest> different_requests() {
  std::vector<LoopRequest> all;
  for (std::uint32_t i = 0; i < 12; ++i) {
    GenerationConfig config{.max_new_tokens = 3 + 5 * (i % 4)};
    config.do_sample = i % 3 != 0;
    config.top_k = 0;
    if (i % 5 == 4) config.num_return_sequences = 3, config.do_sample = true;
    if (i == 7) config.do_sample = false, config.num_beams = 3;
    all.push_back({some_ids(1 + 7 * i % 40, 77 + i / 2), config, i});
  }
  return all;
}

// Everything that a request gives: ids and the bits of their probabilities.
using LoopAnswer = std::vector<std::pair<LoopIds, std::vector<float>>>;

LoopSource loop_source(const SequenceModel& model, const LoopRequest& request, LoopAnswer& answer) {
  const auto call = std::make_shared<const GenerationCall>(request.config, GenerateOptions{.seed = request.seed, .scores = true});
  return call->source(model, request.prompt, 0, [&answer](const std::vector<Generated>& found) {
    for (const Generated& g : found) answer.emplace_back(g.ids, g.token_scores);
  });
}

const LoopLimits in_parts{.part = 8, .step_tokens = 8, .kept_tokens = 64};

LoopAnswer alone(Context& ctx, const SequenceModel& model, const LoopRequest& request) {
  LoopAnswer answer;
  GenerationLoop loop(ctx, model, in_parts);
  loop.add(loop_source(model, request, answer));
  while (loop.step()) {
  }
  return answer;
}

TEST(Loop, WhoJoinsAndLeavesGetsWhatHeGetsAlone) {
  NOT_ON_A_GPU("rows with the same bits in every batch");
  for (const char* name : {"gpt2", "llama", "falcon"}) {
    for (const DType precision : {DType::float32, DType::bfloat16}) {
      SCOPED_TRACE(fmt::format("{} {}", name, precision));
      Context ctx({.precision = precision});
      ctx.set_row_invariant(true);
      const Inference inference(ctx);
      const Generator g = Generator::load(ctx, golden_cases(name).front(), {.text = false, .slide = false});
      const std::vector<LoopRequest> requests = different_requests();
      std::vector<LoopAnswer> answers(requests.size());
      GenerationLoop loop(ctx, g.model(), in_parts);
      // One comes with each second step, so that prompts are read beside sequences that are under way.
      std::size_t come = 0;
      for (int step = 0;; ++step) {
        if (come < requests.size() && step % 2 == 0) loop.add(loop_source(g.model(), requests[come], answers[come])), ++come;
        if (!loop.step() && come == requests.size()) break;
      }
      for (std::size_t i = 0; i < requests.size(); ++i) {
        SCOPED_TRACE(i);
        EXPECT_FALSE(answers[i].empty());
        EXPECT_EQ(answers[i], alone(ctx, g.model(), requests[i]));
      }
      EXPECT_GT(loop.shared_tokens(), 0);  // requests 2·i and 2·i + 1 begin alike
    }
  }
}

// With an encoder: sources that come later bring their memory, and that of those who left goes.
TEST(Loop, SearchesOfWholeSentencesJoinAndLeave) {
  NOT_ON_A_GPU("rows with the same bits in every batch");
  const ModelFolder folder(golden_cases("marian").front());
  Context ctx;
  ctx.set_row_invariant(true);
  const Inference inference(ctx);
  const Translator translator = Translator::load(ctx, folder.path());
  const EncoderDecoderView view = translator.view();
  const SearchCall call(view, {.num_beams = 4, .num_return_sequences = 2}, {});
  std::vector<LoopIds> sources;
  for (std::uint32_t i = 0; i < 9; ++i) sources.push_back(some_ids(2 + 3 * i % 11, i));
  std::vector<std::vector<Hypothesis>> together(sources.size());
  GenerationLoop loop(ctx, view, in_parts);
  std::size_t come = 0;
  for (int step = 0;; ++step) {
    for (int k = 0; k < 2 && come < sources.size() && step % 3 == 0; ++k, ++come)
      loop.add(call.source(sources[come], [&together, come](std::vector<Hypothesis> best) { together[come] = std::move(best); }));
    if (!loop.step() && come == sources.size()) break;
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto found = search(ctx, view, std::span(&sources[i], 1), {.num_beams = 4, .num_return_sequences = 2});
    ASSERT_EQ(together[i].size(), 2U);
    for (std::size_t k = 0; k < 2; ++k) {
      EXPECT_EQ(together[i][k].ids, found[0][k].ids);
      EXPECT_EQ(together[i][k].score, found[0][k].score);
    }
  }
}

TEST(Loop, AShortOneDoesNotWaitForALongOne) {
  Context ctx;
  const Inference inference(ctx);
  const Generator g = Generator::load(ctx, golden_cases("llama").front(), {.text = false, .slide = false});
  std::vector<LoopAnswer> answers(2);
  const LoopRequest longer{some_ids(4, 1), {.max_new_tokens = 40}, 0}, shorter{some_ids(4, 2), {.max_new_tokens = 2}, 0};
  GenerationLoop loop(ctx, g.model(), in_parts);
  loop.add(loop_source(g.model(), longer, answers[0]));
  for (int i = 0; i < 5; ++i) loop.step();
  loop.add(loop_source(g.model(), shorter, answers[1]));
  for (int i = 0; i < 2; ++i) loop.step();
  EXPECT_EQ(answers[1].size(), 1U);
  EXPECT_TRUE(answers[0].empty());
}

// A long prompt is read in parts: who is under way gets a token with every step.
TEST(Loop, ALongPromptHoldsNobodyUp) {
  Context ctx;
  const Inference inference(ctx);
  const Generator g = Generator::load(ctx, golden_cases("llama").front(), {.text = false, .slide = false});
  std::vector<LoopAnswer> answers(2);
  int tokens = 0;
  const LoopRequest first{some_ids(3, 1), {.max_new_tokens = 30}, 0}, second{some_ids(60, 2), {.max_new_tokens = 2}, 0};
  GenerationLoop loop(ctx, g.model(), in_parts);
  LoopSource watched = loop_source(g.model(), first, answers[0]);
  watched.on_token = [&](const LoopToken&) { return ++tokens, false; };
  loop.add(std::move(watched));
  loop.step();
  loop.add(loop_source(g.model(), second, answers[1]));
  for (int i = 0; i < 8; ++i) {  // 60 tokens in parts of 8
    EXPECT_TRUE(answers[1].empty());
    loop.step();
    EXPECT_EQ(tokens, 2 + i);
  }
  loop.step();
  EXPECT_EQ(answers[1].size(), 1U);
}

TEST(Loop, WhoEndsOrFailsLeavesTheOthersAlone) {
  NOT_ON_A_GPU("rows with the same bits in every batch");
  Context ctx;
  ctx.set_row_invariant(true);
  const Inference inference(ctx);
  const Generator g = Generator::load(ctx, golden_cases("gpt2").front(), {.text = false, .slide = false});
  const std::vector<LoopRequest> requests = different_requests();
  std::vector<LoopAnswer> answers(3);
  GenerationLoop loop(ctx, g.model(), in_parts);
  loop.add(loop_source(g.model(), requests[1], answers[0]));
  const std::uint64_t ended = loop.add(loop_source(g.model(), requests[2], answers[1]));
  LoopSource failing = loop_source(g.model(), requests[3], answers[2]);
  LoopOptions nothing = *failing.options;
  nothing.processors.push_back([](const LogitsRow& row, std::span<float> logits) {
    if (row.length() > row.prompt + 1) std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
  });
  failing.options = std::make_shared<const LoopOptions>(nothing);
  std::string why;
  failing.failed = [&](std::exception_ptr e) { why = message_of([&] { std::rethrow_exception(e); }); };
  loop.add(std::move(failing));
  loop.step();
  loop.end(ended);
  while (loop.step()) {
  }
  EXPECT_EQ(answers[0], alone(ctx, g.model(), requests[1]));
  EXPECT_TRUE(answers[1].empty());
  EXPECT_TRUE(answers[2].empty());
  EXPECT_NE(why.find("no token is left"), std::string::npos) << why;
  EXPECT_EQ(loop.rows(), 0);
}

}  // namespace
}  // namespace transformer::test
