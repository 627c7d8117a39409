// transformer classify and embed, on cases of the reference.
#include "cli/command.h"
#include "support/golden.h"
#include "support/paths.h"
#include "support/tiny_tokenizer.h"
#include "transformer/vision/image.h"

namespace transformer::test {
namespace {

// The smallest PNG there is, one grey pixel.
const std::string png(
    "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\nIDATx\x9c\x63\x68\0\0\0\x82\0\x81\x77\xcd\x72\xb6\0\0"
    "\0\0"
    "IEND\xae\x42\x60\x82",
    67);

class Labels : public Command {
 protected:
  // The case of that name with a tokenizer, as the folder `name`.
  void copy(const std::string& name) const { copy_with_tokenizer(golden_root() / name, folder_ / name, tiny_tokenizer(true)); }
};

TEST_F(Labels, OneLineForEachText) {
  copy("bert-cls");
  const std::string input = "first\n\na much longer line than the others\nbroken \xff bytes\n";
  const CommandResult r = run("classify bert-cls", input);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(lines_of(r.out), 4);
  EXPECT_TRUE(r.out.starts_with("LABEL_")) << r.out;
  expect_parts(r.err, {"UTF-8"});
  EXPECT_EQ(run("classify bert-cls --chunk-lines 2", input).out, r.out);
  const CommandResult all = run("classify bert-cls --top-k 0 --text first");
  for (const char* name : {"LABEL_0\t", "LABEL_1\t", "LABEL_2\t"}) expect_parts(all.out, {name});
  const std::string first = r.out.substr(0, r.out.find('\n'));
  // Alone and among others: the same label, and its probability but for the last digit, which the batch may change.
  EXPECT_TRUE(all.out.starts_with(first.substr(0, first.find('\t') + 1))) << all.out << first;
  EXPECT_NEAR(std::stod(all.out.substr(all.out.find('\t') + 1)), std::stod(first.substr(first.find('\t') + 1)), 1.5e-6);
  const CommandResult json = run("classify bert-cls --top-k 2 --json --text first");
  const nlohmann::json object = nlohmann::json::parse(json.out);
  EXPECT_EQ(object.at("text"), "first");
  EXPECT_EQ(object.at("labels").size(), 2U);
}

TEST_F(Labels, PairsAreLinesWithATab) {
  copy("bert-cls");
  const CommandResult r = run("classify bert-cls --pairs --json", "a\tb\nfirst\tsecond\n");
  EXPECT_EQ(r.code, 0) << r.err;
  const nlohmann::json object = nlohmann::json::parse(r.out.substr(r.out.find('\n') + 1));
  EXPECT_EQ(object.at("text"), "first");
  EXPECT_EQ(object.at("second"), "second");
  const CommandResult bad = run("classify bert-cls --pairs --chunk-lines 1", "a\tb\nno tab\n");
  EXPECT_EQ(bad.code, 1);
  expect_parts(bad.err, {"line 2 has 1 column"});
  expect_usage("classify bert-cls --pairs --image x.png", "--pairs");
}

TEST_F(Labels, WordsStandOneALine) {
  std::filesystem::create_directories(folder_ / "variants");
  copy("variants/bert-tokens");
  const CommandResult r = run("classify variants/bert-tokens", "012 3 1\n31\n");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(lines_of(r.out), 3 + 1 + 1 + 1);
  EXPECT_TRUE(r.out.starts_with("012\t")) << r.out;
  EXPECT_EQ(run("classify variants/bert-tokens --tags", "012 3 1\n31\n").out, r.out);
  const CommandResult json = run("classify variants/bert-tokens --json --top-k 0 --text '01 2'");
  const nlohmann::json words = nlohmann::json::parse(json.out).at("words");
  ASSERT_EQ(words.size(), 2U);
  EXPECT_EQ(words[1].at("begin"), 3);
  EXPECT_EQ(words[0].at("labels").size(), 3U);
}

// Tags that mark entities: what they make up, or the words themselves.
TEST_F(Labels, EntitiesAndTags) {
  std::filesystem::create_directories(folder_ / "variants");
  copy("variants/bert-tokens");
  nlohmann::json config = nlohmann::json::parse(read("variants/bert-tokens/config.json"));
  config["id2label"] = {{"0", "B-X"}, {"1", "B-Y"}, {"2", "O"}};
  write("variants/bert-tokens/config.json", config.dump());
  const std::string input = "0 1 2 3 1 0\n2\n";
  const CommandResult tags = run("classify variants/bert-tokens --tags", input), entities = run("classify variants/bert-tokens", input);
  EXPECT_EQ(tags.code, 0) << tags.err;
  EXPECT_EQ(entities.code, 0) << entities.err;
  EXPECT_EQ(lines_of(tags.out), 6 + 1 + 1 + 1);
  const auto count = [](const std::string& text, const std::string& part) {
    std::int64_t n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(lines_of(entities.out), count(tags.out, "\tB-") + 2);
  EXPECT_EQ(count(entities.out, "\tX\t"), count(tags.out, "\tB-X\t"));
  const CommandResult json = run("classify variants/bert-tokens --json", input);
  const nlohmann::json first = nlohmann::json::parse(json.out.substr(0, json.out.find('\n')));
  EXPECT_EQ(first.at("text"), "0 1 2 3 1 0");
  EXPECT_EQ(run("classify variants/bert-tokens --threshold 1", input).out, "\n\n");
  expect_usage("classify variants/bert-tokens --pairs --text x", "--pairs is for models that classify texts");
}

TEST_F(Labels, SeveralLabelsAndNumbers) {
  copy("bert-cls");
  const auto with = [&](const char* problem) {
    nlohmann::json config = nlohmann::json::parse(read("bert-cls/config.json"));
    config["problem_type"] = problem;
    write("bert-cls/config.json", config.dump());
  };
  with("multi_label_classification");
  const CommandResult all = run("classify bert-cls --threshold 0 --text first");
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(std::count(all.out.begin(), all.out.end(), '\t'), 5) << all.out;
  EXPECT_EQ(run("classify bert-cls --threshold 1 --text first").out, "\n");
  with("regression");
  const CommandResult numbers = run("classify bert-cls --text first --text second");
  EXPECT_EQ(numbers.code, 0) << numbers.err;
  EXPECT_EQ(lines_of(numbers.out), 2);
  EXPECT_EQ(std::count(numbers.out.begin(), numbers.out.end(), '\t'), 4) << "three numbers each";
  EXPECT_EQ(numbers.out.find("LABEL"), std::string::npos);
  expect_usage("classify bert-cls --threshold 0.5 --text x", "--threshold is for labels");
  expect_usage("classify bert-cls --tags --text x", "--tags is for models that label words");
}

TEST_F(Labels, ImagesAreFiles) {
  copy("vit");
  write("x.png", png);
  expect_failure("classify vit --image x.png", "preprocessor_config.json");
  write("vit/preprocessor_config.json",
        R"({"image_processor_type": "ViTImageProcessor", "do_resize": true, "size": {"height": 32, "width": 32}, "resample": 2,
            "do_rescale": true, "rescale_factor": 0.00392156862745098, "do_normalize": true, "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5]})");
  const CommandResult r = run("classify vit --image x.png x.png");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(lines_of(r.out), 2);
  EXPECT_TRUE(r.out.starts_with("x.png\tLABEL_")) << r.out;
  expect_usage("classify vit --text x", "--image");
  expect_failure("classify vit --image nothing.png", "nothing.png");
  write("broken.png", png.substr(0, 45));
  const CommandResult first = run("classify vit --image broken.png x.png");
  EXPECT_EQ(first.code, 1);
  EXPECT_TRUE(first.out.empty()) << first.out;
  expect_parts(first.err, {"broken.png: the image is damaged", "Repair it, or leave such images out (--skip-broken)"});
  const CommandResult skipped = run("classify vit --skip-broken --image broken.png x.png nothing.png");
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_TRUE(skipped.out.starts_with("x.png\t")) << skipped.out;
  EXPECT_EQ(lines_of(skipped.out), 1);
  expect_parts(skipped.err, {"broken.png: the image is damaged", "nothing.png", "left out: 2 images that cannot be read"});
  expect_failure("classify vit --skip-broken --image broken.png", "no image is left");
}

// The picture of a camera that was held upright lies in its file: it is turned before the model sees it.
TEST_F(Labels, ImagesAreUpright) {
  copy("vit");
  write("vit/preprocessor_config.json",
        R"({"image_processor_type": "ViTImageProcessor", "do_resize": true, "size": {"height": 32, "width": 32}, "resample": 2,
            "do_rescale": true, "rescale_factor": 0.00392156862745098, "do_normalize": true, "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5]})");
  const std::filesystem::path images = source_folder() / "tests" / "vision" / "images";
  write("turned.png", encode_png(read_image(images / "orientation-6.jpg")));
  write("lying.png", encode_png(read_image(images / "orientation-1.jpg")));
  const auto score = [&](const std::string& image) {
    const CommandResult r = run("classify vit --top-k 0 --image '" + image + "'");
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out.substr(r.out.find('\t'));
  };
  EXPECT_EQ(score((images / "orientation-6.jpg").string()), score("turned.png"));
  EXPECT_NE(score((images / "orientation-6.jpg").string()), score("lying.png"));
}

TEST_F(Labels, VectorsKeepTheOrderOfTheirTexts) {
  copy("bert-base");
  const std::string input = "first\n\na much longer line than the others\n";
  const CommandResult json = run("embed bert-base --pooling cls", input);
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(lines_of(json.out), 3);
  const nlohmann::json first = nlohmann::json::parse(json.out.substr(0, json.out.find('\n')));
  EXPECT_EQ(first.at("text"), "first");
  const CommandResult tsv = run("embed bert-base --pooling cls --tsv --chunk-lines 1", input);
  EXPECT_EQ(lines_of(tsv.out), 3);
  const double value = first.at("embedding").at(0);
  EXPECT_NEAR(std::stod(tsv.out), value, 1e-5);
  ASSERT_EQ(run("embed bert-base --pooling cls --out x.safetensors", input).code, 0);
  const Tensor matrix = SafetensorsFile(folder_ / "x.safetensors").tensor("embeddings");
  EXPECT_EQ(matrix.dim(0), 3);
  EXPECT_EQ(static_cast<std::size_t>(matrix.dim(1)), first.at("embedding").size());
  EXPECT_NEAR(matrix.to_vector<float>()[0], value, 1e-5);
  EXPECT_EQ(run("embed bert-base --normalize --out x.npy", input).code, 0);
  EXPECT_TRUE(read("x.npy").starts_with("\x93NUMPY"));
}

TEST_F(Labels, SayWhatIsWrong) {
  expect_usage("classify", "MODEL is required");
  expect_usage("embed", "MODEL is required");
  copy("bert-cls");
  expect_usage("classify bert-cls --image x.png", "classifies text, not images");
  expect_usage("embed bert-cls --out x.txt", ".safetensors or .npy");
  expect_usage("embed bert-cls --pooling max", "pooling");
  expect_failure("classify '" + (golden_root() / "gpt2").string() + "' --text x", "transformer generate");
  expect_failure("embed '" + (golden_root() / "vit").string() + "' --text x", "classify --image");
  expect_failure("embed '" + (golden_root() / "bert-base").string() + "' --text x", "there is no tokenizer");
  expect_failure("embed bert-cls --text x --pooling pooler", "no pooler");
  expect_failure("classify bert-cls --input nothing", "nothing");
}

}  // namespace
}  // namespace transformer::test
