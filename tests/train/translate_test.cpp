// The task of translating: what it saves is a translator that opens again.
#include "transformer/train/translate.h"

#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "transformer/generate/translator.h"
#include "transformer/io/json.h"
#include "transformer/text/toy_corpus.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

// Without spaces at both ends, which not every tokenizer leaves there.
std::vector<std::string> trimmed(std::vector<std::string> texts) {
  for (std::string& text : texts) {
    text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
    text.erase(text.find_last_not_of(' ') + 1);
  }
  return texts;
}

struct Saved {
  Context ctx{{.seed = 4}};
  TranslateTask::Text text;
  std::vector<std::string> sources;

  explicit Saved(bool separate, bool words = false) {
    std::vector<std::string> left, right;
    for (const ToyPair& p : ToyCorpus(300).training()) {
      text.training.emplace_back(p.source, p.target);
      left.push_back(p.source), right.push_back(p.target);
    }
    sources = {left[0], left[7], "", left[20] + " 한국어? (x)", "zebra  quartz!"};
    auto train = [&](std::vector<std::string> lines) -> TokenizerPtr {
      const LineSource next = [lines, i = std::size_t{0}](std::string& line) mutable {
        return i < lines.size() && (line = lines[i++], true);
      };
      if (words) return build_whitespace(next);
      return train_sentencepiece(next, {.vocab_size = 400});
    };
    if (separate) {
      text.tokenizers = {train(left), train(right)};
    } else {
      std::vector<std::string> both = left;
      both.insert(both.end(), right.begin(), right.end());
      text.tokenizers.source = text.tokenizers.target = train(both);
    }
  }
  TranslateTask task(TranslateLayout layout, TransformerConfig model = {}) {
    model.d_model = 16, model.num_heads = 2, model.d_ff = 24, model.num_layers = 1, model.max_len = 60;
    return {ctx, text, {.arch = layout}, model};
  }
  std::vector<std::string> translations(const TranslateTask& task) {
    return trimmed(
        Translator(std::shared_ptr<const EncoderDecoder>(task.model(), &task.model()->network), task.tokenizers()).translate(ctx, sources));
  }
};

}  // namespace

TEST(TranslateTask, WhatIsSavedTranslatesTheSame) {
  for (const bool separate : {false, true}) {
    Saved saved(separate);
    for (const TranslateLayout layout : {TranslateLayout::marian, TranslateLayout::transformer}) {
      SCOPED_TRACE(fmt::format("separate {} layout {}", separate, transformer::detail::write_value(layout, "arch").dump()));
      const TemporaryFolder folder;
      TranslateTask task = saved.task(layout);
      task.save(folder.path());
      const std::vector<std::string> want = saved.translations(task);
      EXPECT_EQ(trimmed(Translator::load(saved.ctx, folder.path()).translate(saved.ctx, saved.sources)), want);
      // Read back into other weights.
      TranslateTask other = saved.task(layout);
      EXPECT_NE(saved.translations(other), want);
      other.load(saved.ctx, folder.path());
      EXPECT_EQ(saved.translations(other), want);
    }
  }
}

// What Hugging Face's classes look for in a folder, and the tensors that its MarianMTModel has.
TEST(TranslateTask, SavesTheFilesOfMarian) {
  for (const bool separate : {false, true}) {
    Saved saved(separate);
    const TemporaryFolder folder;
    TranslateTask task = saved.task(TranslateLayout::marian);
    task.save(folder.path());
    for (const char* name :
         {"config.json", "generation_config.json", "model.safetensors", "source.spm", "target.spm", "vocab.json", "tokenizer_config.json"})
      EXPECT_TRUE(fs::exists(folder / name)) << name;
    EXPECT_EQ(fs::exists(folder / "target_vocab.json"), separate);
    const nlohmann::json config = read_json(folder / "config.json"), generation = read_json(folder / "generation_config.json");
    EXPECT_EQ(config.at("model_type"), "marian");
    EXPECT_EQ(config.at("architectures"), nlohmann::json({"MarianMTModel"}));
    const Tokenizer& target = *task.tokenizers().target;
    EXPECT_EQ(generation.at("decoder_start_token_id"), target.bos());
    EXPECT_EQ(generation.at("eos_token_id"), target.eos());
    EXPECT_EQ(generation.at("pad_token_id"), target.pad());
    EXPECT_EQ(read_json(folder / "vocab.json").at("</s>"), target.eos());
    EXPECT_EQ(read_json(folder / "vocab.json").size(), static_cast<std::size_t>(task.tokenizers().source->size()));
    const SafetensorsFile file(folder / "model.safetensors");
    EXPECT_EQ(file.contains("model.shared.weight"), !separate);
    EXPECT_EQ(file.contains("model.decoder.embed_tokens.weight"), separate);
    EXPECT_EQ(file.contains("lm_head.weight"), separate);
    EXPECT_TRUE(file.contains("final_logits_bias"));
    EXPECT_TRUE(file.contains("model.decoder.layers.0.encoder_attn.k_proj.bias"));
    for (const NamedParameter& p : task.parameters()) EXPECT_TRUE(p.parameter->trained) << p.name;
  }
}

TEST(TranslateTask, WordsAreNoSubwords) {
  Saved saved(false, true);
  const TemporaryFolder folder;
  TranslateTask task = saved.task(TranslateLayout::marian);
  task.save(folder.path());
  EXPECT_FALSE(fs::exists(folder / "source.spm"));
  EXPECT_EQ(trimmed(Translator::load(saved.ctx, folder.path()).translate(saved.ctx, saved.sources)), saved.translations(task));
}

TEST(TranslateTask, SaysWhatIsNoMarianModel) {
  Saved saved(false);
  expect_error([&] { saved.task(TranslateLayout::marian, {.norm = NormPlace::pre}); }, {"norm", "pre", "--arch transformer"});
  EXPECT_EQ(saved.task(TranslateLayout::automatic, {.norm = NormPlace::pre}).layout(),
            "transformer (norm is \"pre\", but a Marian model has \"post\")");
  EXPECT_EQ(saved.task(TranslateLayout::automatic).layout(), "marian");
  EXPECT_EQ(saved.task(TranslateLayout::transformer).layout(), "transformer");
  // Before the data is read.
  TranslateConfig config;
  config.source = "nowhere.en", config.target = "nowhere.ko", config.arch = TranslateLayout::marian;
  expect_error([&] { TranslateTask(saved.ctx, config, TransformerConfig{.positions = PositionKind::rotary}); },
               {"rotary", "--arch transformer"});
}

}  // namespace transformer::test
