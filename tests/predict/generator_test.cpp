// Folders opened for generation: prompts as text, ids and chats, what is written as it comes.
#include "transformer/predict/generator.h"

#include <fstream>
#include <limits>
#include <sstream>

#include "io/shared/chunks.h"
#include "predict/model_folder.h"

namespace transformer::test {
namespace {

using Ids = std::vector<std::int32_t>;

// A case of the reference: the first whose name begins like this.
std::filesystem::path case_of(const std::string& prefix) { return golden_cases(prefix).front(); }

// A copy of it that has a tokenizer.

// Generates these tokens one after the other, whatever the model says.
LogitsProcessor dictated(Ids ids) {
  return [ids = std::move(ids)](const LogitsRow& row, std::span<float> logits) {
    const auto step = static_cast<std::size_t>(row.length() - row.prompt);
    std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
    logits[static_cast<std::size_t>(ids[std::min(step, ids.size() - 1)])] = 0.0F;
  };
}

PromptStream stream_of(const Generator& g, std::vector<std::string> prompts, std::int64_t batch = 16) {
  return {.next = lines_of(std::move(prompts)), .ids = [&g](const std::string& text) { return g.encode(text); }, .batch = batch};
}

}  // namespace

TEST(Generator, IdsGiveTheReferencesTokensWithAndWithoutAnEncoder) {
  int compared = 0;
  for (const auto& folder : golden_cases("")) {
    if (!std::filesystem::exists(folder / "expected.safetensors")) continue;
    const GoldenCase c(folder);
    if (!c.expected.contains("greedy") || folder.filename() == "llama-dynamic") continue;
    SCOPED_TRACE(folder);
    Context ctx;
    const Generator g = Generator::load(ctx, folder, {.text = false});
    EXPECT_EQ(g.has_encoder(), c.config.value("is_encoder_decoder", false));
    const std::vector<std::int64_t> ids = c.expected.tensor("input_ids").to_vector<std::int64_t>(),
                                    want = c.expected.tensor("greedy").to_vector<std::int64_t>();
    const auto length = c.expected.shape("input_ids")[1], width = c.expected.shape("greedy")[1];
    const std::vector<Ids> prompt{Ids(ids.begin(), ids.begin() + length)};  // the first row has no padding
    const std::int64_t begin = g.has_encoder() ? 1 : length;
    const auto found = g.generate(ctx, prompt, with_wishes(g.config(), {.max_new_tokens = width - begin}));
    Ids expected(want.begin() + begin, want.begin() + width);
    expected.resize(found[0][0].ids.size());
    EXPECT_EQ(found[0][0].ids, expected);
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST(Generator, TextGoesInAndComesOutPieceByPiece) {
  for (const char* prefix : {"gpt2", "t5"}) {
    const ModelFolder folder(case_of(prefix), tiny_tokenizer(false));
    Context ctx;
    const Generator g = Generator::load(ctx, folder.path());
    GenerationConfig config = with_wishes(g.config(), {.max_new_tokens = 12, .temperature = 1.0});
    config.eos_token_id.clear();
    std::string pieces;
    const GenerateOptions options{.seed = 3, .on_token = [&](const GeneratedToken& t) { return pieces += t.text, false; }};
    const auto found = g.generate(ctx, std::vector<Ids>{g.encode("Hello, you")}, config, options);
    for (std::int32_t id : found[0][0].ids) EXPECT_LT(id, tiny_tokens);  // what the tokenizer does not know is not generated
    EXPECT_EQ(found[0][0].text, g.tokenizers().target->decode(found[0][0].ids));
    EXPECT_EQ(pieces, found[0][0].text);
    EXPECT_EQ(g.encode("Hi"), (Ids{tiny_id('H'), tiny_id('i')}));
  }
}

// As Hugging Face's pipeline: the text of prompt and continuation, less the prompt's.
TEST(Generator, ATextThatGoesOnKeepsItsFirstSpace) {
  const ModelFolder folder(case_of("llama"), tiny_llama_tokenizer());
  Context ctx;
  const Generator g = Generator::load(ctx, folder.path());
  EXPECT_EQ(g.encode("ab"), (Ids{tiny_id(' '), tiny_id('a'), tiny_id('b')}));
  const GenerateOptions options{.processors = {dictated({tiny_id(' '), tiny_id('c'), tiny_id(' '), tiny_id('d')})}};
  const auto found = g.generate(ctx, std::vector<Ids>{g.encode("ab")}, {.max_new_tokens = 4}, options);
  EXPECT_EQ(found[0][0].text, " c d");
}

TEST(Generator, StopStringsEndTheText) {
  const ModelFolder folder(case_of("gpt2"), tiny_tokenizer(false));
  Context ctx;
  const Generator g = Generator::load(ctx, folder.path());
  Ids words;
  for (char c : std::string("one STOP two")) words.push_back(tiny_id(c));
  const GenerationConfig config = with_wishes(g.config(), {.max_new_tokens = 12, .stop = {"STOP"}});
  const auto found = g.generate(ctx, std::vector<Ids>{g.encode("x")}, config, {.processors = {dictated(words)}});
  EXPECT_EQ(found[0][0].text, "one ");
  EXPECT_EQ(found[0][0].finish, FinishReason::stop);
}

TEST(Generator, AnEmptyPromptIsTheStartToken) {
  const ModelFolder folder(case_of("gpt2"), tiny_tokenizer(false));
  Context ctx;
  const Generator g = Generator::load(ctx, folder.path());
  EXPECT_EQ(g.encode(""), Ids{*g.config().bos_token_id});
}

TEST(Generator, AChatIsWrittenByItsTemplate) {
  const ModelFolder folder(case_of("gpt2"), tiny_tokenizer(false));
  {
    std::ofstream out(folder.path() / "chat_template.jinja");
    out << "{{ bos_token }}{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}a:{% endif %}";
  }
  Context ctx;
  const Generator g = Generator::load(ctx, folder.path());
  Ids want{1};  // <s>
  for (char c : std::string("s:S;u:Hi;a:")) want.push_back(tiny_id(c));
  EXPECT_EQ(g.encode_chat({{"system", "S"}, {"user", "Hi"}}), want);
  const ModelFolder plain(case_of("gpt2"), tiny_tokenizer(false));
  EXPECT_NE(message_of([&] { Generator::load(ctx, plain.path()).encode_chat({{"user", "Hi"}}); }).find("chat template"), std::string::npos);
}

TEST(Generator, WishesChooseHowTokensAreFound) {
  const GenerationConfig folder{.max_new_tokens = 7, .do_sample = true, .num_beams = 1, .temperature = 0.6, .top_p = 0.9};
  const GenerationConfig same = with_wishes(folder, {});
  EXPECT_EQ(to_json(same), to_json(folder));
  const GenerationConfig greedy = with_wishes(folder, {.temperature = 0.0});
  EXPECT_FALSE(greedy.do_sample);
  const GenerationConfig beam = with_wishes(folder, {.beam = 4});
  EXPECT_TRUE(!beam.do_sample && beam.num_beams == 4);
  const GenerationConfig beams{.num_beams = 5};
  const GenerationConfig drawn = with_wishes(beams, {.top_p = 0.5});
  EXPECT_TRUE(drawn.do_sample && drawn.num_beams == 1 && drawn.top_p == 0.5);
  EXPECT_EQ(with_wishes(beams, {.max_new_tokens = 3}).num_beams, 5);
  EXPECT_EQ(with_wishes(beams, {.temperature = 0.0}).num_beams, 1);
  EXPECT_THROW(check(with_wishes(folder, {.temperature = 0.5, .beam = 4})), Error);
}

TEST(Generator, ManyPromptsComeOutInTheirOrder) {
  const ModelFolder folder(case_of("gpt2"), tiny_tokenizer(false));
  Context ctx;
  const Generator g = Generator::load(ctx, folder.path());
  const std::vector<std::string> prompts{"a long first prompt", "b", "and a third", "", "e"};
  GenerationConfig config = with_wishes(g.config(), {.max_new_tokens = 9, .temperature = 1.0, .num_return_sequences = 2});
  std::ostringstream together, apart;
  generate_stream(ctx, g, stream_of(g, prompts), together, config, {.seed = 5});
  generate_stream(ctx, g, stream_of(g, prompts, 1), apart, config, {.seed = 5});
  EXPECT_EQ(together.str(), apart.str());
  const std::string out = together.str();
  EXPECT_GE(std::count(out.begin(), out.end(), '\n'), 10);
  std::ostringstream bad;
  bad.setstate(std::ios::badbit);
  EXPECT_THROW(generate_stream(ctx, g, stream_of(g, prompts), bad, config), Error);
}

TEST(Generator, StopsWhenAskedTo) {
  const ModelFolder folder(case_of("gpt2"), tiny_tokenizer(false));
  Context ctx;
  const Generator g = Generator::load(ctx, folder.path());
  int tokens = 0;
  PromptStream prompts = stream_of(g, {"a", "b"}, 1);
  prompts.stopped = [&] { return tokens >= 3; };
  GenerationConfig config = with_wishes(g.config(), {.max_new_tokens = 30});
  config.eos_token_id.clear();
  std::ostringstream out;
  const GenerateOptions options{.processors = {dictated({tiny_id('x')})},
                                .on_token = [&](const GeneratedToken&) { return ++tokens, false; }};
  generate_stream(ctx, g, prompts, out, config, options);
  EXPECT_EQ(out.str(), "xxx\n");  // and the second prompt is not read
}

TEST(Generator, SaysWhatAModelIsForAndWhatIsMissing) {
  Context ctx;
  const std::string classes = message_of([&] { Generator::load(ctx, case_of("bert-cls")); });
  EXPECT_NE(classes.find("BertForSequenceClassification does not generate text; it classifies text: see 'transformer classify'"),
            std::string::npos)
      << classes;
  EXPECT_NE(message_of([&] { Generator::load(ctx, case_of("vit")); }).find("classify --image"), std::string::npos);
  const std::string missing = message_of([&] { Generator::load(ctx, case_of("gpt2")); });
  EXPECT_NE(missing.find("tokenizer.json"), std::string::npos) << missing;
  EXPECT_NE(message_of([] { parse_ids("1 x 2"); }).find("'x'"), std::string::npos);
  EXPECT_EQ(parse_ids(" 1\t22 \n3"), (Ids{1, 22, 3}));
  EXPECT_THROW(parse_ids("99999999999"), Error);
}

}  // namespace transformer::test
