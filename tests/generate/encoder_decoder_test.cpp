// Generation with encoder-decoder families against Hugging Face Transformers, token for token.
#include "support/golden.h"
#include "transformer/generate/generate.h"
#include "transformer/models/encoder_decoder_model.h"

namespace transformer::test {
namespace {

using Ids = std::vector<std::int32_t>;

std::vector<std::filesystem::path> encoder_decoder_cases() {
  std::vector<std::filesystem::path> found;
  for (const auto& folder : golden_cases(""))
    if (std::filesystem::exists(folder / "expected.safetensors") && std::filesystem::exists(folder / "config.json"))
      if (const GoldenCase c(folder); c.config.value("is_encoder_decoder", false) && c.expected.contains("greedy")) found.push_back(folder);
  return found;
}

// The rows of ids where the mask is 1.
std::vector<Ids> prompts_of(const GoldenCase& c) {
  const std::vector<std::int64_t> ids = c.expected.tensor("input_ids").to_vector<std::int64_t>(),
                                  mask = c.expected.tensor("attention_mask").to_vector<std::int64_t>();
  const Shape shape = c.expected.shape("input_ids");
  std::vector<Ids> prompts(static_cast<std::size_t>(shape[0]));
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (mask[i] != 0) prompts[i / static_cast<std::size_t>(shape[1])].push_back(static_cast<std::int32_t>(ids[i]));
  return prompts;
}

}  // namespace

TEST(EncoderDecoderGeneration, GivesTheReferencesTokens) {
  const auto folders = encoder_decoder_cases();
  EXPECT_FALSE(folders.empty());
  for (const auto& folder : folders) {
    SCOPED_TRACE(folder);
    const GoldenCase c(folder);
    Context ctx;
    const auto model = load_model(ctx, folder);
    GenerationConfig config = load_generation_config(folder);
    const SpecialTokens special{
        .pad = *config.pad_token_id, .unk = -1, .bos = *config.decoder_start_token_id, .eos = config.eos_token_id.at(0)};
    const EncoderDecoderView view(dynamic_cast<EncoderDecoderModel&>(*model).network, -1, special);
    // The longest of what was found had no room for more.
    std::int64_t longest = 0;
    for (const char* name : {"greedy", "beam4", "beam4_lp06"})
      if (c.expected.contains(name)) longest = std::max(longest, c.expected.shape(name)[1]);
    config.max_new_tokens = longest - 1;
    for (const auto& [name, beams, penalty] :
         {std::tuple{"greedy", 1, 1.0}, std::tuple{"beam4", 4, 1.0}, std::tuple{"beam4_lp06", 4, 0.6}}) {
      if (!c.expected.contains(name)) continue;
      config.num_beams = beams, config.length_penalty = penalty;
      const auto found = generate(ctx, view, prompts_of(c), config);
      const std::vector<std::int64_t> want = c.expected.tensor(name).to_vector<std::int64_t>();
      const auto width = static_cast<std::size_t>(c.expected.shape(name)[1]);
      for (std::size_t row = 0; row < found.size(); ++row) {
        Ids got = found[row][0].ids;
        got.insert(got.begin(), special.bos);
        got.resize(width, special.pad);
        const Ids wanted(want.begin() + static_cast<std::ptrdiff_t>(row * width),
                         want.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
        EXPECT_EQ(got, wanted) << name << " " << row;
      }
    }
  }
}

// One step of the cache after the other gives what one pass over all gives.
TEST(EncoderDecoderGeneration, StepsAreOnePass) {
  for (const auto& folder : encoder_decoder_cases()) {
    SCOPED_TRACE(folder);
    const GoldenCase c(folder);
    Context ctx;
    const auto model = load_model(ctx, folder);
    const NoGradients no_gradients(ctx);
    const Tensor targets = c.expected.tensor("decoder_input_ids");
    const Tensor all = model
                           ->run(ctx,
                                 {{"input_ids", c.expected.tensor("input_ids")},
                                  {"attention_mask", c.expected.tensor("attention_mask")},
                                  {"decoder_input_ids", targets}})
                           .at("logits");
    const EncoderDecoderView view(dynamic_cast<EncoderDecoderModel&>(*model).network, -1, {});
    const std::vector<Ids> prompts = prompts_of(c);
    const std::vector<std::span<const std::int32_t>> sources(prompts.begin(), prompts.end());
    const auto decoder = view.start(ctx, sources);
    const std::int64_t rows = targets.dim(0), length = targets.dim(1), vocabulary = all.dim(2);
    const std::vector<std::int64_t> ids = targets.to_vector<std::int64_t>();
    const std::vector<double> want = detail::to_double(all);
    for (std::int64_t step = 0; step < length; ++step) {
      Ids tokens;
      std::vector<double> at_step;
      for (std::int64_t row = 0; row < rows; ++row) {
        tokens.push_back(static_cast<std::int32_t>(ids[static_cast<std::size_t>(row * length + step)]));
        const auto begin = want.begin() + (row * length + step) * vocabulary;
        at_step.insert(at_step.end(), begin, begin + vocabulary);
      }
      expect_near(decoder->next(ctx, tokens, Sequences::uniform(rows, 1)), at_step, 1e-4);
    }
  }
}

}  // namespace transformer::test
