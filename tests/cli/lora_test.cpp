// `--lora-rank`, `--adapter` and `merge` as their user meets them: for every task, with a base that training does not touch.
#include "cli/training.h"
#include "io/shared/json.h"
#include "support/op_check.h"
#include "support/toy_images.h"
#include "toys/corpus.h"
#include "toys/shared/languages.h"
#include "transformer/io/safetensors.h"
#include "transformer/toys/prices.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

class LoraCommand : public Training {
 protected:
  LoraCommand() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += fmt::format("the cat number {} sat on the mat,\nand the dog  slept.\n\n", i % 7);
    write("cats.txt", text);
    write("dogs.txt", "a dog number 7 ran to the sea and slept on the sand.\n" + text.substr(0, 300));
  }
  void ok(const std::string& arguments, const std::string& input = "") const {
    const CommandResult r = run(arguments, input);
    ASSERT_EQ(r.code, 0) << arguments << "\n" << r.err;
  }
  void make_base() const {
    ok("train lm --text cats.txt --d-model 32 --num-heads 2 --num-layers 2 --context 16 --batch-size 8 --max-update 20 --lr 0.01 --threads "
       "2 "
       "--save-dir base");
  }
  // An adapter's folder and its checkpoints have no weights of the base.
  void expect_adapter(const std::string& folder) const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / folder)) EXPECT_NE(entry.path().filename(), "model.safetensors");
    EXPECT_TRUE(fs::exists(folder_ / folder / "adapter_model.safetensors"));
    const nlohmann::json config = read_json(folder_ / folder / "adapter_config.json");
    EXPECT_EQ(config.at("peft_type"), "LORA");
    EXPECT_EQ(config.at("r"), 4);
  }
  static constexpr const char* lora = " --lora-rank 4 --lora-alpha 8 --lora-dropout 0.1 --threads 2 ";
  static constexpr const char* further = "train lm --from base --text dogs.txt --context 12 --batch-size 4 --lr 0.01 --max-update 10 ";
};

TEST_F(LoraCommand, AnAdapterGeneratesIsMeasuredAndMerged) {
  make_base();
  const std::string before = read("base/model.safetensors");
  CommandResult r = run(further + std::string(lora) + "--save-dir adapter --lora-merge");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_parts(r.err, {"of an adapter of rank 4, 1024 are trained", "MiB of memory", "merged model: adapter/merged"});
  EXPECT_TRUE(read("base/model.safetensors") == before);
  EXPECT_TRUE(fs::exists(folder_ / "adapter/merged/model.safetensors"));
  ok("merge base --adapter adapter --out merged");
  EXPECT_TRUE(read("merged/model.safetensors") == read("adapter/merged/model.safetensors"));
  EXPECT_TRUE(read("merged/tokenizer.json") == read("base/tokenizer.json"));
  fs::remove_all(folder_ / "adapter/merged");
  expect_adapter("adapter");

  const auto measured = [&](const std::string& model) { return run("evaluate " + model + " --text dogs.txt").out; };
  EXPECT_NE(measured("adapter"), "");
  EXPECT_EQ(measured("adapter"), measured("base --adapter adapter"));
  EXPECT_EQ(measured("adapter"), measured("merged"));  // to the four digits that are shown
  EXPECT_NE(measured("adapter"), measured("base"));
  const auto said = [&](const std::string& model) {
    return run("generate " + model + " --prompt 'a dog' --max-new-tokens 12 --temperature 0").out;
  };
  EXPECT_NE(said("adapter"), "");
  EXPECT_EQ(said("adapter"), said("base --adapter adapter"));
  EXPECT_EQ(said("adapter"), said("merged"));
  ok("inspect adapter");
  ok("tokenize adapter", "a dog\n");

  expect_failure("merge base --adapter adapter --out merged", "merged: exists already");
  expect_usage("merge base --out other", "nothing to merge");
}

// The base in bfloat16, the adapter in float32: it learns what it learns in float32, and goes on where it was stopped.
TEST_F(LoraCommand, LearnsInBfloat16) {
  make_base();
  const auto train = [&](const std::string& flags) {
    ok("train lm --from base --text dogs.txt --valid-split 0 --context 12 --batch-size 4 --lr 0.03 --lora-rank 4 --lora-targets all-linear "
       "--threads 2 " +
       flags);
  };
  train("--max-update 150 --save-dir float32");
  train("--max-update 100 --precision bfloat16 --save-dir adapter");
  train("--max-update 150 --precision bfloat16 --save-dir adapter");
  expect_adapter("adapter");
  const SafetensorsFile adapter(folder_ / "adapter/adapter_model.safetensors");
  for (const std::string& name : adapter.names()) EXPECT_EQ(adapter.dtype(name), DType::float32) << name;
  const auto loss = [&](const std::string& model) {
    const CommandResult r = run("evaluate " + model + " --text dogs.txt");
    EXPECT_TRUE(r.out.starts_with("loss ")) << r.out << r.err;
    return r.out.starts_with("loss ") ? std::stod(r.out.substr(5)) : NAN;
  };
  const double after = loss("adapter");
  EXPECT_LT(after, 0.92 * loss("base"));
  EXPECT_NEAR(after, loss("float32"), 0.02 * after);
  EXPECT_NEAR(after, loss("adapter --precision bfloat16"), 0.01 * after);
  EXPECT_NE(run("generate adapter --precision bfloat16 --prompt 'a dog' --max-new-tokens 12 --temperature 0").out, "");
}

TEST_F(LoraCommand, GoesOnFromAnAdapter) {
  make_base();
  ok(further + std::string(lora) + "--save-dir first");
  ok(further + std::string("--adapter first --save-dir second"));
  ok("train lm --from first --text dogs.txt --context 12 --batch-size 4 --lr 0.01 --max-update 10 --save-dir third");
  expect_adapter("second");
  EXPECT_TRUE(read("second/adapter_model.safetensors") == read("third/adapter_model.safetensors"));
  EXPECT_FALSE(read("second/adapter_model.safetensors") == read("first/adapter_model.safetensors"));
  expect_failure(further + std::string("--adapter first --lora-rank 8 --save-dir other"), "keeps its rank");
}

TEST_F(LoraCommand, AnotherBaseOrRankIsNotTheRunThatWasStopped) {
  make_base();
  ok(further + std::string(lora) + "--save-dir adapter");
  const std::string more = "train lm --from base --text dogs.txt --context 12 --batch-size 4 --lr 0.01 --max-update 20 --save-dir adapter ";
  const auto refused = [&](const std::string& flags, const std::string& message) {
    const CommandResult r = run(more + flags);
    EXPECT_EQ(r.code, 1) << flags;
    expect_parts(r.err, {message});
  };
  refused("", "lora");
  refused("--lora-rank 2 --lora-alpha 8 --lora-dropout 0.1", "lora.rank: 4 in the checkpoint, 2 now");
  refused(std::string(lora) + "--lora-targets c_fc", "lora.targets");
  ok("train lm --text dogs.txt --d-model 32 --num-heads 2 --num-layers 2 --context 16 --batch-size 8 --max-update 1 --threads 2 --vocab "
     "base --save-dir base2");
  fs::rename(folder_ / "base2/model.safetensors", folder_ / "base/model.safetensors");
  refused(lora, "start.weights");
}

TEST_F(LoraCommand, SaysWhatIsMissing) {
  make_base();
  expect_usage("train lm --text dogs.txt --max-update 2 --save-dir other --lora-rank 4", "give --from");
  expect_usage(further + std::string("--save-dir other --lora-alpha 4"), "give --lora-rank");
  expect_failure(further + std::string("--save-dir other --lora-rank 4 --lora-targets q_proj"),
                 "no matrix of this model is called 'q_proj'");
  expect_failure("generate base --adapter cats.txt --prompt a", "cats.txt: is not an adapter");
  EXPECT_FALSE(fs::exists(folder_ / "other"));
}

TEST_F(LoraCommand, ClassifiesWithAFreshHead) {
  std::string songs, rows;
  for (const std::string& song : song_texts(100)) songs += song + "\n";
  for (const BracketText& t : bracket_texts(60)) rows += t.text + (t.balanced ? "\tyes\n" : "\tno\n");
  write("songs", songs), write("train.tsv", rows);
  for (const std::string arch : {"bert", "roberta", "distilbert"}) {
    ok("train mlm --text songs --d-model 16 --num-heads 2 --d-ff 24 --num-layers 1 --max-length 64 --max-update 2 --threads 2 --arch " +
       arch + " --save-dir " + arch);
    ok("train mlm --from " + arch + " --text songs --max-length 64 --max-update 2 --save-dir mlm-" + arch + lora);
    expect_adapter("mlm-" + arch);
    const std::string folder = "classes-" + arch;
    ok("train classify --from " + arch + " --data train.tsv --valid train.tsv --max-length 64 --max-update 4 --lr 0.01 --save-dir " +
       folder + lora);
    expect_adapter(folder);
    const nlohmann::json config = read_json(folder_ / folder / "adapter_config.json");
    EXPECT_EQ(config.at("task_type"), "SEQ_CLS");
    EXPECT_FALSE(config.at("modules_to_save").empty());
    const CommandResult r = run("classify " + folder + " --text '( )' --top-k 0");
    ASSERT_EQ(r.code, 0) << r.err;
    expect_parts(r.out, {"yes\t", "no\t"});
    EXPECT_EQ(r.out, run("classify " + arch + " --adapter " + folder + " --text '( )' --top-k 0").out);
    EXPECT_EQ(run("evaluate " + folder + " --data train.tsv").out,
              run("evaluate " + arch + " --adapter " + folder + " --data train.tsv").out);
    ok("merge " + folder + " --out whole-" + arch);
    ok("embed " + folder + " --text '( )'");
    EXPECT_EQ(run("classify whole-" + arch + " --text '( )' --top-k 0").code, 0);
  }
}

TEST_F(LoraCommand, TranslatesImagesAndForecasts) {
  std::string source, target;
  for (const ToyPair& p : ToyCorpus(100).training()) source += p.source + "\n", target += p.target + "\n";
  write("a", source), write("b", target);
  ok("train translate --source a --target b --vocab-size 300 --d-model 16 --num-heads 2 --d-ff 24 --num-layers 1 --max-tokens 400 "
     "--max-update 2 --threads 2 --save-dir translator");
  ok("train translate --from translator --source a --target b --max-tokens 400 --max-update 2 --save-dir pairs" + std::string(lora));
  expect_adapter("pairs");
  EXPECT_EQ(run("translate pairs", source).out, run("translate translator --adapter pairs", source).out);

  write_idx([this](const std::string& name, const std::string& content) { write(name, content); }, ToyImages(60), ToyImages(20, 2));
  ok("train image --idx . --patch-size 2 --d-model 16 --num-heads 2 --num-layers 1 --d-ff 24 --max-update 2 --threads 2 --save-dir eye");
  ok("train image --idx . --from eye --max-update 2 --save-dir lens" + std::string(lora));
  expect_adapter("lens");
  EXPECT_EQ(run("evaluate lens --idx .").out, run("evaluate eye --adapter lens --idx .").out);
  EXPECT_NE(run("evaluate lens --idx .").out, "");

  write("prices.csv", write_table(toy_prices(600)));
  ok("train forecast --csv prices.csv --preset documents --max-update 2 --threads 2 --save-dir oracle");
  ok("train forecast --csv prices.csv --from oracle --max-update 2 --save-dir seer" + std::string(lora));
  expect_adapter("seer");
  const std::string next = run("forecast seer --csv prices.csv").out;
  EXPECT_NE(next, "");
  EXPECT_EQ(next, run("forecast oracle --adapter seer --csv prices.csv").out);
}

// A model whose weights are most of the memory: an adapter needs them once, full training four times.
TEST_F(LoraCommand, TakesAFractionOfTheMemory) {
  NOT_ON_A_GPU("it is the host's memory");
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer holds back memory that was freed";
#endif
  ok("train lm --text cats.txt --vocab byte --d-model 512 --num-heads 8 --num-layers 10 --context 32 --batch-size 1 --max-update 1 "
     "--valid-split "
     "0 --threads 2 --save-dir base");
  const auto memory = [&](const std::string& flags) {
    const CommandResult r = run(
        "train lm --from base --text cats.txt --context 32 --batch-size 1 --max-update 2 --valid-split 0 --threads 2 " + flags);
    EXPECT_EQ(r.code, 0) << r.err;
    const std::size_t at = r.err.find("at most ");
    return at == std::string::npos ? 0 : std::stoll(r.err.substr(at + 8));
  };
  const auto full = memory("--save-dir full"), adapter = memory("--save-dir adapter --lora-rank 8");
  EXPECT_GT(full, 4 * 120);  // MiB; the weights have 121
  EXPECT_LT(static_cast<double>(adapter), 0.4 * static_cast<double>(full));
}

}  // namespace
}  // namespace transformer::test
