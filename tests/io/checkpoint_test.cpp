#include "transformer/io/checkpoint.h"

#include <fstream>

#include "io/shared/json.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"

namespace transformer::test {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  void save(const std::string& name, const std::vector<std::string>& tensors) {
    std::vector<std::pair<std::string, Tensor>> out;
    for (const std::string& t : tensors) out.emplace_back(t, Tensor::full(ctx_, {2}, static_cast<float>(t.size())));
    save_safetensors(folder_ / name, out);
  }
  void index(const nlohmann::json& map) { write_json(folder_ / "model.safetensors.index.json", {{"weight_map", map}}); }
  void expect_refused(const std::vector<std::string>& parts) {
    expect_error([&] { Checkpoint{folder_.path()}; }, parts);
  }

  Context ctx_;
  TemporaryFolder folder_;
};

TEST_F(CheckpointTest, OneFile) {
  save("model.safetensors", {"a", "bb"});
  const Checkpoint c(folder_.path());
  EXPECT_EQ(c.names(), (std::vector<std::string>{"a", "bb"}));
  EXPECT_TRUE(c.contains("bb"));
  EXPECT_EQ(c.tensor("bb").to_vector<float>(), (std::vector<float>{2.0F, 2.0F}));
  expect_error([&] { static_cast<void>(c.tensor("bbb")); }, {"model.safetensors", "no tensor 'bbb'", "did you mean 'bb'?"});
}

TEST_F(CheckpointTest, SeveralFilesWithAnIndex) {
  save("model-00001-of-00002.safetensors", {"a"});
  save("model-00002-of-00002.safetensors", {"bb", "ccc"});
  index(
      {{"a", "model-00001-of-00002.safetensors"}, {"bb", "model-00002-of-00002.safetensors"}, {"ccc", "model-00002-of-00002.safetensors"}});
  const Checkpoint c(folder_.path());
  EXPECT_EQ(c.names().size(), 3U);
  EXPECT_EQ(c.tensor("a").to_vector<float>()[0], 1.0F);
  EXPECT_EQ(c.tensor("ccc").to_vector<float>()[0], 3.0F);
  EXPECT_TRUE(c.file("bb").path().ends_with("model-00002-of-00002.safetensors"));
}

TEST_F(CheckpointTest, DroppedPagesAreReadAgain) {
  Tensor big = Tensor::full(ctx_, {1 << 16}, 3.0F);
  save_safetensors(folder_ / "model.safetensors", {{"big", big}});
  const SafetensorsFile file(folder_ / "model.safetensors");
  const Tensor view = file.tensor("big");
  EXPECT_EQ(view.data<float>()[70], 3.0F);
  file.drop("big");
  EXPECT_EQ(view.to_vector<float>(), big.to_vector<float>());
}

TEST_F(CheckpointTest, SaysWhatIsMissing) {
  expect_error([] { Checkpoint{std::filesystem::path("/no/such/folder")}; }, {"/no/such/folder", "no such folder"});
  expect_refused({"neither model.safetensors nor model.safetensors.index.json"});
  std::ofstream(folder_ / "pytorch_model.bin") << "PK";
  expect_refused({"pytorch_model.bin", "save_pretrained", "safe_serialization=True"});
}

TEST_F(CheckpointTest, RefusesAnIndexThatLies) {
  save("one.safetensors", {"a"});
  save("two.safetensors", {"a", "b"});
  index({{"a", "one.safetensors"}, {"b", "one.safetensors"}});
  expect_refused({"index.json", "tensor 'b' should be in one.safetensors and is not"});
  index({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  expect_refused({"two.safetensors", "tensor 'a' is also in", "one.safetensors"});
  for (const char* outside : {"../one.safetensors", "/etc/passwd", "..", "", "a/../one.safetensors"}) {
    index({{"a", outside}});
    expect_refused({"is not the name of a file in the same folder"});
  }
  index({{"a", 1}});
  expect_refused({"tensor 'a'", "expected the name of a file"});
  write_json(folder_ / "model.safetensors.index.json", nlohmann::json::array());
  expect_refused({"weight_map"});
  std::ofstream(folder_ / "model.safetensors.index.json") << "{";
  expect_refused({"line 1"});
}

}  // namespace
}  // namespace transformer::test
