// Generation with decoder-only families against Hugging Face Transformers, token for token: each folder of the cases that has
// what the reference generated.
#include "generate/shared/causal.h"

#include <algorithm>

#include "support/golden.h"
#include "transformer/generate/generate.h"

namespace transformer::test {
namespace {

using Ids = std::vector<std::int32_t>;

bool is_causal(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / "expected.safetensors") || !std::filesystem::exists(folder / "config.json")) return false;
  const GoldenCase c(folder);
  return !c.config.value("is_encoder_decoder", false) && c.expected.contains("greedy");
}

// Names of the folders of the root.
std::vector<std::string> causal_cases() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(golden_root(), none))
    if (entry.is_directory() && is_causal(entry.path())) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

struct Loaded {
  GoldenCase golden;
  Context ctx;
  std::unique_ptr<Model> model;
  const TextModel& text;
  explicit Loaded(const std::string& name)
      : golden(golden_root() / name), model(load_model(ctx, golden.folder)), text(dynamic_cast<const TextModel&>(*model)) {}

  // The rows of a tensor of ids.
  std::vector<Ids> rows(const std::string& name) const {
    const std::vector<std::int64_t> ids = golden.expected.tensor(name).to_vector<std::int64_t>();
    const Shape shape = golden.expected.shape(name);
    std::vector<Ids> out(static_cast<std::size_t>(shape[0]));
    for (std::size_t i = 0; i < ids.size(); ++i) out[i / static_cast<std::size_t>(shape[1])].push_back(static_cast<std::int32_t>(ids[i]));
    return out;
  }
  // What the model gives for each token of ids, in one pass without a cache: [tokens][vocabulary].
  std::vector<std::vector<double>> at_once(const Ids& ids) {
    const std::vector<std::int64_t> wide(ids.begin(), ids.end());
    const Tensor all =
        model->run(ctx, {{"input_ids", Tensor::from<std::int64_t>(ctx, {1, static_cast<std::int64_t>(ids.size())}, wide)}}).at("logits");
    const std::vector<double> values = detail::to_double(all);
    std::vector<std::vector<double>> out;
    const auto width = static_cast<std::ptrdiff_t>(all.dim(2));
    for (auto at = values.begin(); at != values.end(); at += width) out.emplace_back(at, at + width);
    return out;
  }
  // Dynamic scaling makes the angles depend on the longest sequence so far, and cached keys keep the angles they were made with.
  bool depends_on_the_way() const { return text.text().stack.rope.scaling == RopeScaling::dynamic; }
};

void expect_row(const Tensor& logits, std::int64_t row, const std::vector<double>& want) {
  const std::vector<double> all = detail::to_double(logits);
  ASSERT_EQ(static_cast<std::size_t>(logits.dim(1)), want.size());
  double largest = 1.0, error = 0.0;
  for (double w : want) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < want.size(); ++i)
    error = std::max(error, std::abs(all[static_cast<std::size_t>(row) * want.size() + i] - want[i]));
  EXPECT_LE(error, 1e-5 * largest) << "row " << row;
}

class Causal : public testing::TestWithParam<std::string> {};

std::string name_of_case(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Golden, Causal, testing::ValuesIn(causal_cases()), name_of_case);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Causal);

TEST_P(Causal, GivesTheReferencesTokens) {
  Loaded c(GetParam());
  const CausalView view(c.text);
  const std::vector<Ids> prompts = c.rows("input_ids");
  GenerationConfig config = load_generation_config(c.golden.folder);
  std::int64_t longest = 0;  // the longest of what was found had no room for more
  for (const char* name : {"greedy", "beam4", "beam4_lp06"})
    if (c.golden.expected.contains(name)) longest = std::max(longest, c.golden.expected.shape(name)[1]);
  config.max_new_tokens = longest - static_cast<std::int64_t>(prompts.at(0).size());
  for (const auto& [name, beams, penalty] : {std::tuple{"greedy", 1, 1.0}, std::tuple{"beam4", 4, 1.0}, std::tuple{"beam4_lp06", 4, 0.6}}) {
    if (!c.golden.expected.contains(name)) continue;
    if (c.depends_on_the_way()) GTEST_SKIP() << "with dynamic RoPE the reference's tokens depend on what it generated before";
    config.num_beams = beams, config.length_penalty = penalty;
    auto is_end = [&](std::int32_t id) { return std::count(config.eos_token_id.begin(), config.eos_token_id.end(), id) > 0; };
    const std::vector<Ids> want = c.rows(name);
    const auto found = generate(c.ctx, view, prompts, config);
    for (std::size_t row = 0; row < prompts.size(); ++row) {
      Ids got = prompts[row];
      got.insert(got.end(), found[row][0].ids.begin(), found[row][0].ids.end());
      // Behind the end token the reference has padding, whichever it was given.
      ASSERT_LE(got.size(), want[row].size()) << name << " " << row;
      const auto end = want[row].begin() + std::ssize(got);
      EXPECT_EQ(got, Ids(want[row].begin(), end)) << name << " " << row;
      EXPECT_TRUE(std::all_of(end, want[row].end(), [&](std::int32_t id) { return id == want[row].back(); })) << name << " " << row;
      EXPECT_EQ(found[row][0].finish, end == want[row].end() && !is_end(got.back()) ? FinishReason::length : FinishReason::eos) << name;
      // Alone it is the same.
      const auto alone = generate(c.ctx, view, std::span(&prompts[row], 1), config);
      EXPECT_EQ(alone[0][0].ids, found[row][0].ids) << name << " " << row;
    }
  }
}

// Prompts of different lengths at once, then token by token, rows leaving and doubling: always what one pass over the row's
// tokens gives.
TEST_P(Causal, StepsAreOnePass) {
  Loaded c(GetParam());
  const NoGradients no_gradients(c.ctx);
  if (c.depends_on_the_way()) GTEST_SKIP() << "with dynamic RoPE cached keys keep the angles they were made with";
  std::vector<Ids> rows = c.rows("greedy");
  std::vector<Ids> seen;
  for (std::size_t r = 0; r < rows.size(); ++r)
    seen.emplace_back(rows[r].begin(), rows[r].begin() + static_cast<std::ptrdiff_t>(2 + 3 * r));
  const CausalView view(c.text);
  const std::vector<std::span<const std::int32_t>> sources(seen.begin(), seen.end());
  const auto decoder = view.start(c.ctx, sources);

  auto check = [&](const Tensor& logits) {
    for (std::size_t r = 0; r < seen.size(); ++r) expect_row(logits, static_cast<std::int64_t>(r), c.at_once(seen[r]).back());
  };
  auto step = [&](const std::vector<Ids>& added) {
    Ids tokens;
    std::vector<std::int64_t> lengths;
    for (std::size_t r = 0; r < added.size(); ++r) {
      tokens.insert(tokens.end(), added[r].begin(), added[r].end());
      lengths.push_back(static_cast<std::int64_t>(added[r].size()));
    }
    check(decoder->next(c.ctx, tokens, Sequences(lengths)));
  };
  step(seen);
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<Ids> added;
    for (std::size_t r = 0; r < seen.size(); ++r) {
      const Ids& all = rows[r % rows.size()];
      added.push_back({all[(seen[r].size() + r) % all.size()]});
      if (turn == 1) added.back().push_back(all[r]);  // several tokens may come later, too
      seen[r].insert(seen[r].end(), added.back().begin(), added.back().end());
    }
    step(added);
    const std::vector<std::int64_t> parents = turn == 0 ? std::vector<std::int64_t>{0, 0, 1} : std::vector<std::int64_t>{2, 1};
    std::vector<Ids> next;
    for (std::int64_t p : parents) next.push_back(seen[static_cast<std::size_t>(std::min<std::int64_t>(p, std::ssize(seen) - 1))]);
    std::vector<std::int64_t> valid;
    for (std::int64_t p : parents) valid.push_back(std::min<std::int64_t>(p, std::ssize(seen) - 1));
    decoder->reorder(c.ctx, valid);
    seen = next;
  }
}

TEST(CausalView, EndsWhereItsPositionsEnd) {
  for (const std::string& name : causal_cases()) {
    Loaded c(name);
    const CausalView view(c.text);
    const std::int64_t positions = c.golden.config.value("n_positions", std::int64_t{0});
    if (positions == 0) {
      EXPECT_EQ(view.max_tokens(), std::numeric_limits<std::int64_t>::max()) << name;
      continue;
    }
    EXPECT_EQ(view.max_tokens(), positions) << name;
    // The last token is predicted from all positions there are, and never read.
    const std::vector<Ids> prompt{Ids(static_cast<std::size_t>(positions) - 2, 3)};
    const auto found = generate(c.ctx, view, prompt, {.max_new_tokens = 100});
    EXPECT_EQ(found[0][0].ids.size(), 3U) << name;
    EXPECT_EQ(found[0][0].finish, FinishReason::length) << name;
    const std::vector<Ids> too_long{Ids(static_cast<std::size_t>(positions) + 1, 3)};
    EXPECT_THROW(generate(c.ctx, view, too_long, {}), Error);
  }
}

// Beyond its positions a text goes on from its newer half, alone as in company, in a beam as well.
TEST(CausalView, SlidesWhereItsPositionsEnd) {
  std::size_t tried = 0;
  for (const std::string& name : causal_cases()) {
    Loaded c(name);
    const std::int64_t positions = c.golden.config.value("n_positions", std::int64_t{0});
    if (positions == 0) continue;
    ++tried;
    const CausalView view(c.text, {}, 0, true);
    const auto wanted = static_cast<std::size_t>(2 * positions + 3);
    Ids longer;  // than the table: its end is read
    for (std::int64_t i = 0; i < positions + 5; ++i) longer.push_back(static_cast<std::int32_t>(3 + i % 7));
    const std::vector<Ids> prompts{{5, 3, 7}, Ids(static_cast<std::size_t>(positions), 3), longer};
    const GenerationConfig config{.max_new_tokens = static_cast<std::int64_t>(wanted)};
    const auto found = generate(c.ctx, view, prompts, config);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      ASSERT_EQ(found[i][0].ids.size(), wanted) << name;
      Ids held(prompts[i].end() - std::min<std::int64_t>(positions, std::ssize(prompts[i])), prompts[i].end());
      for (const std::int32_t id : found[i][0].ids) {
        const std::vector<double> logits = c.at_once(held).back();
        EXPECT_GT(logits[static_cast<std::size_t>(id)], *std::max_element(logits.begin(), logits.end()) - 1e-4) << name;
        held.push_back(id);
        if (std::ssize(held) > positions) held.erase(held.begin(), held.end() - positions / 2);
      }
      EXPECT_EQ(generate(c.ctx, view, std::span(&prompts[i], 1), config)[0][0].ids, found[i][0].ids) << name;
    }
    const auto beam = generate(c.ctx, view, prompts, {.max_new_tokens = config.max_new_tokens, .num_beams = 3});
    for (std::size_t i = 1; i < prompts.size(); ++i) EXPECT_EQ(beam[i][0].ids.size(), wanted) << name;
    EXPECT_EQ(view.max_source(), std::numeric_limits<std::int64_t>::max()) << name;
  }
  EXPECT_GT(tried, 0U);
}

TEST(CausalView, RefusesWhatItCannotBe) {
  Context ctx;
  for (const auto& folder : golden_cases("bert")) {
    const auto model = load_model(ctx, folder);
    EXPECT_THROW(CausalView(dynamic_cast<const TextModel&>(*model)), Error);
  }
  for (const std::string& name : causal_cases()) {
    Loaded c(name);
    const CausalView view(c.text);
    for (const std::int32_t id : {-1, static_cast<std::int32_t>(c.text.text().vocabulary)})
      EXPECT_THROW(generate(c.ctx, view, std::vector<Ids>{{id}}, {}), Error) << name << " " << id;
    EXPECT_THROW(generate(c.ctx, view, std::vector<Ids>{{}}, {}), Error) << name;
    break;
  }
}

// Tokens that the tokenizer does not have are not generated.
TEST(CausalView, KeepsToTheVocabularyItIsGiven) {
  for (const std::string& name : causal_cases()) {
    Loaded c(name);
    const CausalView view(c.text, {}, 7);
    const auto found = generate(c.ctx, view, std::vector<Ids>{{1, 2, 3}}, {.max_new_tokens = 8});
    for (std::int32_t id : found[0][0].ids) EXPECT_LT(id, 7) << name;
  }
}

}  // namespace
}  // namespace transformer::test
