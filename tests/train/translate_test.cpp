// The task of translating: what it saves is a translator that opens again.
#include "transformer/train/translate.h"

#include <fstream>

#include "io/shared/json.h"
#include "io/shared/read_file.h"
#include "support/golden.h"
#include "support/metrics.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "support/tiny_tokenizer.h"
#include "toys/corpus.h"
#include "transformer/predict/translator.h"
#include "transformer/train/trainer.h"

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

TransformerConfig task_settings(NormPlace norm) {
  return {.d_model = 16, .num_heads = 2, .d_ff = 24, .num_layers = 1, .max_len = 60, .norm = norm};
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
  std::vector<std::string> translations(const TranslateTask& task) { return trimmed(task.translator().translate(ctx, sources)); }
};

// A reference model with a tokenizer of its own: Marian's three files, or one token a letter.
void make_start(const std::string& family, const fs::path& folder) {
  const bool marian = family == "marian";
  nlohmann::json tokenizer = tiny_tokenizer(true);
  if (family == "t5") tokenizer["post_processor"]["single"].erase(0);  // … </s>
  copy_with_tokenizer(golden_root() / family, folder, tokenizer);
  nlohmann::json config = read_json(folder / "config.json");
  if (!marian) {
    for (const char* name : {"config.json", "generation_config.json"}) {
      nlohmann::json file = read_json(folder / name);
      file["eos_token_id"] = 2;
      write_json(folder / name, file);
    }
    return;
  }
  fs::remove(folder / "tokenizer.json");
  std::vector<ToyPair> text = ToyCorpus(100).training();
  const TokenizerPtr pieces = train_sentencepiece(
      [text, i = std::size_t{0}](std::string& line) mutable { return i < text.size() && (line = text[i++].source, true); },
      {.vocab_size = 120});
  pieces->save(folder / "source.spm"), pieces->save(folder / "target.spm");
  nlohmann::json ids{{"</s>", config.at("eos_token_id")}, {"<unk>", 1}, {"<pad>", config.at("pad_token_id")}};
  for (std::int32_t id = 4, next = 2; id < pieces->size(); ++id) ids[pieces->piece(id)] = next++;
  write_json(folder / "vocab.json", ids);
  write_json(folder / "tokenizer_config.json",
             {{"tokenizer_class", "MarianTokenizer"}, {"unk_token", "<unk>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}});
}

// Short texts to copy.
TranslateConfig copying(const TemporaryFolder& folder, std::size_t pairs) {
  std::vector<ToyPair> text = ToyCorpus(100).training();
  std::erase_if(text, [](const ToyPair& p) { return p.source.size() > 30; });
  text.resize(std::min(text.size(), pairs));
  std::string lines;
  for (const ToyPair& p : text) lines += p.source + "\t" + p.source + "\n";
  std::ofstream(folder / "pairs.tsv") << lines;
  TranslateConfig config;
  config.tsv = config.valid_tsv = folder / "pairs.tsv";
  config.max_tokens = 200;
  return config;
}

}  // namespace

// Hugging Face: labels are the target's tokens with all that its tokenizer puts around them, and the decoder's input is the
// labels moved by one place, behind decoder_start_token_id.
TEST(FineTuning, TheLossIsThatOfHuggingFace) {
  for (const char* family : {"marian", "bart", "t5"}) {
    SCOPED_TRACE(family);
    const TemporaryFolder folder;
    make_start(family, folder / "start");
    Context ctx;
    TranslateTask task(ctx, copying(folder, 1), FineTuning{.from = folder / "start", .label_smoothing = 0.0F});
    ASSERT_EQ(task.plan(0), 1);
    const float got = task.loss(ctx, task.prepare(0)).item();
    std::ifstream file(folder / "pairs.tsv");
    std::string line;
    std::getline(file, line, '\t');
    auto ids = [&](const Tokenizer& tokenizer) {
      const std::vector<std::int32_t> all = tokenizer.tokenize(line).ids;
      return Tensor::from<std::int32_t>(ctx, {1, std::ssize(all)}, all);
    };
    const auto model = load_model(ctx, folder / "start");
    const NamedTensors out = model->run(ctx, {{"input_ids", ids(*task.tokenizers().source)}, {"labels", ids(*task.tokenizers().target)}});
    EXPECT_NEAR(got, out.at("loss").item(), 1e-5F * std::abs(got));
  }
}

// The same for models of many languages: the target's stands before its text, or, with mBART, behind it, and begins what the decoder reads.
TEST(FineTuning, TheLossOfModelsForManyLanguages) {
  for (const std::string family : {"m2m_100", "mbart"}) {
    SCOPED_TRACE(family);
    const TemporaryFolder folder;
    nlohmann::json tokenizer = tiny_tokenizer(false);
    for (const auto& [token, id] : {std::pair{family == "mbart" ? "en_XX" : "__en__", 98}, {family == "mbart" ? "ko_KR" : "__ko__", 99}})
      tokenizer["added_tokens"].push_back({{"id", id}, {"content", token}, {"special", true}, {"normalized", false}});
    copy_with_tokenizer(golden_root() / family, folder / "start", tokenizer);
    write_json(folder / "start/tokenizer_config.json",
               {{"bos_token", "<s>"},
                {"eos_token", "</s>"},
                {"pad_token", "<pad>"},
                {"tokenizer_class", family == "mbart" ? "MBartTokenizer" : "M2M100Tokenizer"}});
    Context ctx;
    TranslateConfig data = copying(folder, 1);
    expect_error([&] { TranslateTask(ctx, data, FineTuning{.from = folder / "start"}); }, {"--source-lang", "2 languages"});
    data.source_lang = family == "mbart" ? "en_XX" : "en", data.target_lang = family == "mbart" ? "ko_KR" : "ko";
    TranslateTask task(ctx, data, FineTuning{.from = folder / "start", .label_smoothing = 0.0F});
    ASSERT_EQ(task.plan(0), 1);
    const float got = task.loss(ctx, task.prepare(0)).item();
    std::ifstream file(folder / "pairs.tsv");
    std::string line;
    std::getline(file, line, '\t');
    auto ids = [&](const Tokenizer& t) {
      const std::vector<std::int32_t> all = t.tokenize(line).ids;
      return Tensor::from<std::int32_t>(ctx, {1, std::ssize(all)}, all);
    };
    const Tensor labels = ids(*task.tokenizers().target);
    EXPECT_EQ(labels.to_vector<std::int32_t>()[family == "mbart" ? static_cast<std::size_t>(labels.numel()) - 1 : 0], 99);
    const auto model = load_model(ctx, folder / "start");
    const NamedTensors out = model->run(ctx, {{"input_ids", ids(*task.tokenizers().source)}, {"labels", labels}});
    EXPECT_NEAR(got, out.at("loss").item(), 1e-5F * std::abs(got));

    // And it translates: behind the start, or as the start.
    const Translator translator = Translator::load(ctx, folder / "start",
                                                   {.source_lang = data.source_lang, .target_lang = data.target_lang});
    EXPECT_EQ(translator.translate(ctx, line, {.num_beams = 2}), task.translator().translate(ctx, line, {.num_beams = 2}));
    expect_error([&] { Translator::load(ctx, folder / "start", {.source_lang = data.source_lang, .target_lang = "kr"}); },
                 {"--target-lang", "'kr'"});
  }
}

TEST(FineTuning, LearnsAndKeepsTheFamily) {
  for (const char* family : {"marian", "bart", "t5"}) {
    SCOPED_TRACE(family);
    const TemporaryFolder folder;
    make_start(family, folder / "start");
    const TranslateConfig data = copying(folder, 24);
    const FineTuning start{.from = folder / "start"};
    auto train = [&](const char* to, std::int64_t updates) {
      Context ctx({.seed = 3});
      TranslateTask task(ctx, data, start);
      const double before = task.validate(ctx).front().second;
      EXPECT_EQ(task.metrics(), names_of(task.validate(ctx)));
      const TrainConfig config{.save_dir = folder / to,
                               .max_update = updates,
                               .lr = 0.003F,
                               .lr_scheduler = Schedule::Kind::constant,
                               .warmup_updates = 2,
                               .quiet = true};
      Trainer(ctx, task, config).run();
      return std::pair(before, task.validate(ctx).front().second);
    };
    const auto [before, after] = train("straight", 16);
    EXPECT_LT(after, 0.8 * before);

    // The same bits when it is stopped in between.
    train("twice", 9), train("twice", 16);
    EXPECT_TRUE(read_file(folder / "straight/model.safetensors") == read_file(folder / "twice/model.safetensors"));

    // A folder of the same family: the same settings and, byte for byte, the same tokenizer.
    EXPECT_EQ(read_json(folder / "straight/config.json"), read_json(folder / "start/config.json"));
    for (const auto& entry : fs::directory_iterator(folder / "start")) {
      const fs::path name = entry.path().filename();
      if (name != "model.safetensors" && name != "config.json") {
        EXPECT_EQ(read_file(folder / "straight" / name), read_file(entry.path())) << name;
      }
    }
    const SafetensorsFile old_file(folder / "start/model.safetensors"), new_file(folder / "straight/model.safetensors");
    for (const std::string& name : new_file.names()) EXPECT_EQ(new_file.shape(name), old_file.shape(name)) << name;
    Context ctx({.seed = 3});
    const Translator translator = Translator::load(ctx, folder / "straight");
    EXPECT_NO_THROW(static_cast<void>(translator.translate(ctx, "a cat")));

    // Another start is another run.
    TranslateTask again(ctx, data, start), further(ctx, data, FineTuning{.from = folder / "straight"});
    EXPECT_NE(again.identity().at("start"), further.identity().at("start"));
    EXPECT_EQ(again.identity().at("architecture"), further.identity().at("architecture"));
  }
}

TEST(FineTuning, DropoutIsTheFoldersUnlessSet) {
  const TemporaryFolder folder;
  Context ctx;
  for (const auto& [family, key] : {std::pair{"bart", "dropout"}, std::pair{"t5", "dropout_rate"}}) {
    make_start(family, folder / family);
    const nlohmann::json before = read_json(folder / family / "config.json");
    const TranslateTask kept(ctx, copying(folder, 4), FineTuning{.from = folder / family});
    EXPECT_EQ(kept.model().config(), before);
    const TranslateTask set(ctx, copying(folder, 4), FineTuning{.from = folder / family, .dropout = 0.25F});
    EXPECT_EQ(set.model().config().at(key), 0.25);
    EXPECT_EQ(set.network()->encoder.dropout, 0.25F);
  }
  expect_error([&] { TranslateTask(ctx, copying(folder, 4), FineTuning{.from = folder / "t5", .ffn_dropout = 0.1F}); },
               {"ffn_dropout", "T5", "one `dropout`"});
}

TEST(FineTuning, APrefixStandsBeforeEverySource) {
  const TemporaryFolder folder;
  make_start("t5", folder / "start");
  Context ctx;
  TranslateConfig data = copying(folder, 4);
  const TranslateTask plain(ctx, data, FineTuning{.from = folder / "start"});
  data.source_prefix = "copy: ";
  const TranslateTask told(ctx, data, FineTuning{.from = folder / "start"});
  const auto with = told.training().source(0), without = plain.training().source(0);
  ASSERT_EQ(with.size(), without.size() + 6);
  EXPECT_EQ(with[0], tiny_id('c'));
  EXPECT_TRUE(std::equal(without.begin(), without.end(), with.begin() + 6));
  EXPECT_EQ(told.training().target(0).size(), plain.training().target(0).size());
}

TEST(FineTuning, SaysWhatItCannotTrainFurther) {
  const TemporaryFolder folder;
  Context ctx;
  const TranslateConfig data = copying(folder, 4);
  for (const char* family : {"gpt2", "bert-base", "vit"})
    expect_error([&] { TranslateTask(ctx, data, FineTuning{.from = golden_root() / family}); },
                 {family, "does not translate", "an encoder and a decoder", "Marian, BART or T5"});
  expect_error([&] { TranslateTask(ctx, data, FineTuning{.from = golden_root() / "marian"}); }, {"no tokenizer in this folder"});
  TranslateConfig other = data;
  other.vocab_size = 500;
  expect_error([&] { TranslateTask(ctx, other, FineTuning{.from = golden_root() / "marian"}); }, {"vocab_size is 500", "keeps"});
}

TEST(TranslateTask, WhatIsSavedTranslatesTheSame) {
  for (const bool separate : {false, true}) {
    Saved saved(separate);
    for (const TranslateLayout layout : {TranslateLayout::marian, TranslateLayout::pegasus, TranslateLayout::transformer}) {
      const bool pegasus = layout == TranslateLayout::pegasus;
      if (pegasus && separate) continue;  // it has one vocabulary
      SCOPED_TRACE(fmt::format("separate {} layout {}", separate, transformer::detail::write_value(layout, "arch").dump()));
      const TemporaryFolder folder;
      const TransformerConfig model{.norm = pegasus ? NormPlace::pre : NormPlace::post};
      TranslateTask task = saved.task(layout, model);
      task.save(folder.path());
      const std::vector<std::string> want = saved.translations(task);
      EXPECT_EQ(trimmed(Translator::load(saved.ctx, folder.path()).translate(saved.ctx, saved.sources)), want);
      // Read back into other weights.
      TranslateTask other = saved.task(layout, model);
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
    // As published models have them: </s> 0, <unk> 1, <pad> last, and decoding starts with <pad>, whose embedding is zero.
    const nlohmann::json vocab = read_json(folder / "vocab.json");
    const std::int32_t pad = separate ? 2 : static_cast<std::int32_t>(vocab.size()) - 1;
    for (const nlohmann::json& file : {config, generation}) {
      EXPECT_EQ(file.at("decoder_start_token_id"), pad);
      EXPECT_EQ(file.at("pad_token_id"), pad);
      EXPECT_EQ(file.at("eos_token_id"), 0);
    }
    EXPECT_EQ(generation.at("bad_words_ids"), nlohmann::json({{pad}}));
    EXPECT_EQ(vocab.at("</s>"), 0);
    EXPECT_EQ(vocab.at("<unk>"), 1);
    EXPECT_EQ(vocab.at("<pad>"), pad);
    EXPECT_EQ(vocab.size(), static_cast<std::size_t>(task.tokenizers().source->size()));
    const SafetensorsFile file(folder / "model.safetensors");
    EXPECT_EQ(file.contains("model.shared.weight"), !separate);
    EXPECT_EQ(file.contains("model.decoder.embed_tokens.weight"), separate);
    EXPECT_EQ(file.contains("lm_head.weight"), separate);
    EXPECT_TRUE(file.contains("final_logits_bias"));
    EXPECT_TRUE(file.contains("model.decoder.layers.0.encoder_attn.k_proj.bias"));
    for (const NamedParameter& p : task.parameters()) EXPECT_TRUE(p.parameter->trained) << p.name;
  }
}

TEST(TranslateTask, SavesTheFilesOfPegasus) {
  Saved saved(false);
  const TemporaryFolder folder;
  TranslateTask task = saved.task(TranslateLayout::automatic, {.norm = NormPlace::pre});
  EXPECT_EQ(task.layout(), "pegasus");
  task.save(folder.path());
  const nlohmann::json config = read_json(folder / "config.json");
  EXPECT_EQ(config.at("model_type"), "pegasus");
  EXPECT_EQ(config.at("architectures"), nlohmann::json({"PegasusForConditionalGeneration"}));
  EXPECT_EQ(config.at("decoder_start_token_id"), 0);
  EXPECT_EQ(config.at("pad_token_id"), 0);
  EXPECT_EQ(config.at("eos_token_id"), 1);
  EXPECT_EQ(config.at("vocab_size"), task.tokenizers().source->size());
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
    EXPECT_TRUE(fs::exists(folder / name)) << name;
  const SafetensorsFile file(folder / "model.safetensors");
  for (const char* name : {"model.shared.weight", "model.encoder.embed_positions.weight", "model.decoder.layer_norm.weight"})
    EXPECT_TRUE(file.contains(name)) << name;
}

// The start of a target is a zero that stays one, whatever is learned.
TEST(TranslateTask, ThePaddingThatTargetsBeginWithStaysZero) {
  for (const NormPlace norm : {NormPlace::post, NormPlace::pre})
    for (const bool separate : {false, true}) {
      if (separate && norm == NormPlace::pre) continue;
      Saved saved(separate);
      const TemporaryFolder folder;
      TranslateTask task = saved.task(TranslateLayout::automatic, {.norm = norm});
      const std::vector<std::string> before = saved.translations(task);
      Trainer(saved.ctx, task,
              {.save_dir = folder / "run", .max_update = 5, .lr = 0.01F, .warmup_updates = 1, .weight_decay = 0.1F, .quiet = true})
          .run();
      EXPECT_NE(saved.translations(task), before);
      const EncoderDecoder& network = *task.network();
      for (const auto* table : {&network.encoder.embedding, separate ? &network.decoder.embedding : &network.encoder.embedding}) {
        const Tensor row = (*table)->weight.tensor.row_block(task.tokenizers().target->pad(), 1);
        EXPECT_EQ(row.to_vector<float>(), std::vector<float>(16, 0.0F));
      }
      // What goes on has the same vocabulary.
      const auto checkpoint = latest_checkpoint(folder / "run");
      ASSERT_TRUE(checkpoint);
      const TranslateTask again(saved.ctx, saved.text, {.arch = TranslateLayout::automatic}, task_settings(norm), checkpoint);
      EXPECT_EQ(again.identity(), task.identity());
    }
}

// Runs of before: the ids of SentencePiece, <pad> 0 and a start of its own. They open, and go on as they are.
TEST(TranslateTask, GoesOnFromTheIdsOfBefore) {
  Saved saved(false);
  const TemporaryFolder folder, copy;
  const Tokenizer& pieces = *saved.text.tokenizers.source;
  TransformerConfig config = task_settings(NormPlace::post);
  config.src_vocab_size = pieces.size();
  const auto model = make_model(marian_config(config, {.start = 2, .end = 3, .padding = 0}));
  initialize(saved.ctx, model->parameters());
  save_model(saved.ctx, *model, folder.path());
  pieces.save(folder / "source.spm"), pieces.save(folder / "target.spm");
  nlohmann::json vocab = nlohmann::json::object();
  for (std::int32_t id = 0; id < pieces.size(); ++id) vocab[pieces.piece(id)] = id;
  write_json(folder / "vocab.json", vocab);
  write_json(folder / "tokenizer_config.json",
             {{"tokenizer_class", "MarianTokenizer"},
              {"unk_token", "<unk>"},
              {"eos_token", "</s>"},
              {"pad_token", "<pad>"},
              {"separate_vocabs", false}});
  write_json(folder / "generation_config.json",
             {{"bos_token_id", 2}, {"decoder_start_token_id", 2}, {"eos_token_id", 3}, {"forced_eos_token_id", 3}, {"pad_token_id", 0}});
  write_json(folder / "trainer.json", nlohmann::json::object());

  TranslateTask task(saved.ctx, saved.text, {}, task_settings(NormPlace::post), folder.path());
  EXPECT_EQ(task.layout(), "marian");
  EXPECT_EQ(task.tokenizers().source->eos(), 3);
  task.load(saved.ctx, folder.path());
  const std::vector<std::string> want = saved.translations(task);
  EXPECT_EQ(trimmed(Translator::load(saved.ctx, folder.path()).translate(saved.ctx, saved.sources)), want);
  task.save(copy.path());
  for (const char* name : {"source.spm", "target.spm", "model.safetensors"})
    EXPECT_TRUE(read_file(copy / name) == read_file(folder / name)) << name;
  for (const char* name : {"config.json", "vocab.json", "tokenizer_config.json", "generation_config.json"})
    EXPECT_EQ(read_json(copy / name), read_json(folder / name)) << name;

  // One with norms before its sublayers was saved as the original, and goes on so.
  const TemporaryFolder classic;
  TranslateTask original = saved.task(TranslateLayout::transformer, {.norm = NormPlace::pre});
  original.save(classic.path());
  write_json(classic / "trainer.json", nlohmann::json::object());
  const TranslateTask further(saved.ctx, saved.text, {}, task_settings(NormPlace::pre), classic.path());
  EXPECT_EQ(further.layout(), "transformer");
  EXPECT_EQ(further.identity(), original.identity());
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
  expect_error([&] { saved.task(TranslateLayout::pegasus); }, {"norm is \"post\"", "a Pegasus model has \"pre\""});
  EXPECT_EQ(Saved(true).task(TranslateLayout::automatic, {.norm = NormPlace::pre}).layout(),
            "transformer (source and target have vocabularies of their own, but a Pegasus model has one for both)");
  EXPECT_EQ(saved.task(TranslateLayout::automatic, {.norm = NormPlace::pre, .positions = PositionKind::rotary}).layout(),
            "transformer (positions is \"rotary\", but a Pegasus model has \"sinusoidal\")");
  EXPECT_EQ(saved.task(TranslateLayout::automatic).layout(), "marian");
  EXPECT_EQ(saved.task(TranslateLayout::transformer).layout(), "transformer");
  // Before the data is read.
  TranslateConfig config;
  config.source = "nowhere.en", config.target = "nowhere.ko", config.arch = TranslateLayout::marian;
  expect_error([&] { TranslateTask(saved.ctx, config, TransformerConfig{.positions = PositionKind::rotary}); },
               {"rotary", "--arch transformer"});
}

}  // namespace transformer::test
