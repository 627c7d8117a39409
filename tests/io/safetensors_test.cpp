#include "transformer/io/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>

#include "support/op_check.h"
#include "support/temporary_folder.h"

namespace transformer::test {
namespace {

// A file of the given parts, however wrong.
std::filesystem::path raw_file(const std::filesystem::path& path, const std::string& header, const std::string& data,
                               std::int64_t announced = -1) {
  const std::uint64_t length = announced < 0 ? header.size() : static_cast<std::uint64_t>(announced);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << header << data;
  return path;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string s(values.size() * sizeof(T), '\0');
  std::memcpy(s.data(), values.data(), s.size());
  return s;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, RoundTripOfEveryType) {
  const TemporaryFolder folder;
  Context ctx({.device = Device::cpu()});
  const std::vector<bfloat16> b{bfloat16(1.5F), bfloat16(-2.0F), bfloat16(0.0F)};
  const std::vector<float16> h{float16(0.25F), float16(-4.0F)};
  const Tensor wide = tensor(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  save_safetensors(folder / "x.safetensors",
                   {{"bytes", Tensor::from<std::uint8_t>(ctx, {3}, {1, 2, 255})},
                    {"signed", Tensor::from<std::int8_t>(ctx, {1, 1}, {-5})},
                    {"f32", wide},
                    {"block", wide.column_block(1, 2)},
                    {"bf16", Tensor::from<bfloat16>(ctx, {3}, b)},
                    {"f16", Tensor::from<float16>(ctx, {2}, h)},
                    {"i32", Tensor::from<std::int32_t>(ctx, {2}, {-1, 7})},
                    {"i64", Tensor::from<std::int64_t>(ctx, {1}, {1LL << 60})},
                    {"empty", Tensor::empty(ctx, {0, 4})},
                    {"scalar", Tensor::full(ctx, {}, 2.5F)},
                    {"나", Tensor::full(ctx, {1}, 3.0F)}},
                   {{"format", "pt"}, {"note", "\"quoted\""}});
  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.names().size(), 11U);
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"note", "\"quoted\""}}));
  EXPECT_EQ(file.tensor("bytes").to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 2, 255}));
  EXPECT_EQ(file.tensor("signed").to_vector<std::int8_t>(), (std::vector<std::int8_t>{-5}));
  EXPECT_EQ(file.tensor("signed").shape(), (Shape{1, 1}));
  expect_near(file.tensor("f32"), {1, 2, 3, 4, 5, 6}, 0.0);
  expect_near(file.tensor("block"), {2, 3, 5, 6}, 0.0);
  expect_near(file.tensor("bf16"), {1.5, -2, 0}, 0.0);
  EXPECT_EQ(file.dtype("bf16"), DType::bfloat16);
  expect_near(file.tensor("f16"), {0.25, -4}, 0.0);
  EXPECT_EQ(file.tensor("i32").to_vector<std::int32_t>(), (std::vector<std::int32_t>{-1, 7}));
  EXPECT_EQ(file.tensor("i64").to_vector<std::int64_t>(), (std::vector<std::int64_t>{1LL << 60}));
  EXPECT_EQ(file.tensor("empty").shape(), (Shape{0, 4}));
  EXPECT_EQ(file.tensor("scalar").rank(), 0);
  EXPECT_EQ(file.tensor("scalar").item(), 2.5F);
  EXPECT_TRUE(file.contains("나"));
  EXPECT_EQ(file.stored_type("f16"), "F16");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);  // no temporary left
  for (const std::string& name : file.names())
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.tensor(name).raw()) % static_cast<std::uintptr_t>(size_of(file.dtype(name))), 0U)
        << name;
}

TEST(Safetensors, StridedRowsLargerThanTheBuffer) {
  const TemporaryFolder folder;
  Context ctx({.device = Device::cpu()});
  std::vector<float> values(700 * 1001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Tensor block = tensor(ctx, {700, 1001}, values).column_block(1, 999);
  save_safetensors(folder / "x.safetensors", {{"block", block}});
  EXPECT_EQ(SafetensorsFile(folder / "x.safetensors").tensor("block").to_vector<float>(), block.to_vector<float>());
}

TEST(Safetensors, TensorsOutliveTheFileAndItsReplacement) {
  const TemporaryFolder folder;
  Context ctx({.device = Device::cpu()});
  save_safetensors(folder / "x.safetensors", {{"w", Tensor::full(ctx, {4}, 1.0F)}});
  Tensor w = SafetensorsFile(folder / "x.safetensors").tensor("w");
  save_safetensors(folder / "x.safetensors", {{"w", Tensor::full(ctx, {4}, 2.0F)}});
  expect_near(w, {1, 1, 1, 1}, 0.0);
  w.mutable_data<float>()[0] = 9.0F;  // this process's copy only
  expect_near(w, {9, 1, 1, 1}, 0.0);
  expect_near(SafetensorsFile(folder / "x.safetensors").tensor("w"), {2, 2, 2, 2}, 0.0);
  const SafetensorsFile file(folder / "x.safetensors");
  file.tensor("w").mutable_data<float>()[1] = 7.0F;
  expect_near(SafetensorsFile(folder / "x.safetensors").tensor("w"), {2, 2, 2, 2}, 0.0);
}

TEST(Safetensors, ReadsDoublesBoolsAndUnalignedBytes) {
  const TemporaryFolder folder;
  const std::string data = bytes_of<std::uint8_t>({1, 0, 1}) + bytes_of<double>({0.5, -1e-3}) + bytes_of<float>({3.25F});
  const auto path = raw_file(folder / "x",
                             "{" + entry("flags", "BOOL", "[3]", "[0,3]") + "," + entry("d", "F64", "[2]", "[3,19]") + "," +
                                 entry("f", "F32", "[1]", "[19,23]") + "}",
                             data);
  const SafetensorsFile file(path);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"flags", "d", "f"}));
  EXPECT_EQ(file.tensor("flags").to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 0, 1}));
  EXPECT_EQ(file.tensor("d").dtype(), DType::float32);
  expect_near(file.tensor("d"), {0.5, static_cast<float>(-1e-3)}, 0.0);
  expect_near(file.tensor("f"), {3.25}, 0.0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.tensor("f").raw()) % 4, 0U);
}

TEST(Safetensors, RefusesHostileFiles) {
  const TemporaryFolder folder;
  auto refuses =
      [&](const std::string& header, const std::string& data, const std::vector<std::string>& parts, std::int64_t announced = -1) {
    SCOPED_TRACE(header.substr(0, 200));
    std::vector<std::string> all = parts;
    all.push_back("bad.safetensors");
    const auto path = raw_file(folder / "bad.safetensors", header, data, announced);
    expect_error([&] { const SafetensorsFile file(path); }, all);
  };
  const std::string four = bytes_of<float>({1.0F});
  // The header's length.
  refuses("{}", "", {"cut short"}, 3);
  refuses("{}", "", {"cut short"}, std::numeric_limits<std::int64_t>::max());
  refuses("{}", "", {"cut short"}, 1LL << 33);
  // JSON.
  refuses("{", "", {"not JSON"});
  refuses("", "", {"not JSON"});
  refuses("[]", "", {"object"});
  refuses("{\"a\":\"\xff\"}", "", {"not JSON"});
  refuses(std::string(200'000, '['), "", {"nested too deeply"});
  refuses("{\"a\": " + std::string(200'000, '[') + std::string(200'000, ']') + "}", "", {"nested too deeply"});
  refuses("{\"a\": 1e999}", "", {"1e999"});
  refuses("{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("a", "F32", "[1]", "[4,8]") + "}", four + four, {"'a'", "twice"});
  // Entries.
  refuses("{\"a\":1}", "", {"'a'", "dtype"});
  refuses("{\"a\":{\"dtype\":\"F32\"}}", "", {"'a'", "shape"});
  refuses("{" + entry("a", "F99", "[1]", "[0,4]") + "}", four, {"'a'", "unknown dtype 'F99'"});
  refuses("{" + entry("a", "F32", "[-1]", "[0,4]") + "}", four, {"'a'", "shape"});
  refuses("{" + entry("a", "F32", "[1.0]", "[0,4]") + "}", four, {"'a'", "shape"});
  refuses("{" + entry("a", "F32", "[18446744073709551615]", "[0,4]") + "}", four, {"'a'", "shape"});
  refuses("{" + entry("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") + "}", four, {"'a'", "9 dimensions"});
  refuses("{" + entry("a", "F32", "[1]", "[0]") + "}", four, {"'a'", "data_offsets"});
  refuses("{" + entry("a", "F32", "[1]", "[0,4,8]") + "}", four, {"'a'", "data_offsets"});
  refuses("{\"__metadata__\":{\"a\":1}}", "", {"__metadata__", "'a'"});
  refuses("{\"__metadata__\":[]}", "", {"__metadata__"});
  // Sizes and places.
  refuses("{" + entry("a", "F32", "[2]", "[0,4]") + "}", four, {"'a'", "[2]", "4 bytes"});
  refuses("{" + entry("a", "F32", "[4611686018427387904,4]", "[0,0]") + "}", "", {"'a'", "does not fit"});
  refuses("{" + entry("a", "F32", "[4294967296,4294967296,4294967296,0]", "[0,0]") + "}", "", {"'a'", "does not fit"});
  refuses("{" + entry("a", "F32", "[1]", "[0,8]") + "}", four, {"'a'", "0 to 8 of 4"});
  refuses("{" + entry("a", "F32", "[1]", "[4,0]") + "}", four, {"'a'", "4 to 0"});
  refuses("{" + entry("a", "F32", "[1]", "[9223372036854775803,9223372036854775807]") + "}", four, {"'a'"});
  refuses("{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "F32", "[1]", "[0,4]") + "}", four, {"overlaps"});
  refuses("{" + entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "F32", "[1]", "[4,8]") + "}", four + four, {"'b'", "overlaps"});
  refuses("{" + entry("a", "F32", "[1]", "[4,8]") + "}", four + four, {"belong to no tensor"});
  refuses("{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "F32", "[1]", "[8,12]") + "}", four + four + four,
          {"'b'", "belong to no tensor"});
  refuses("{" + entry("a", "F32", "[1]", "[0,4]") + "}", four + "x", {"bytes 4 to 5"});

  std::ofstream(folder / "short.safetensors") << "abc";
  expect_error([&] { const SafetensorsFile file(folder / "short.safetensors"); }, {"short.safetensors", "3 bytes"});
  std::ofstream(folder / "empty.safetensors") << "";
  expect_error([&] { const SafetensorsFile file(folder / "empty.safetensors"); }, {"0 bytes"});
  expect_error([&] { const SafetensorsFile file(folder / "absent"); }, {"absent", "No such file"});
  expect_error([&] { const SafetensorsFile file(folder.path()); }, {"not a regular file"});
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  Context ctx({.device = Device::cpu()});
  save_safetensors(folder / "x", {{"a", Tensor::full(ctx, {3, 2}, 1.0F)}, {"b", Tensor::full(ctx, {2}, 1.0F)}});
  std::ifstream in(folder / "x", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t n = 0; n < whole.size(); ++n) {
    std::ofstream(folder / "cut", std::ios::binary) << whole.substr(0, n);
    EXPECT_THROW(SafetensorsFile(folder / "cut"), Error) << n;
  }
  EXPECT_NO_THROW(SafetensorsFile(folder / "x"));
}

TEST(Safetensors, NamesMissingAndUnsupportedTensors) {
  const TemporaryFolder folder;
  const auto path = raw_file(folder / "x", "{" + entry("layer.weight", "U16", "[2]", "[0,4]") + "}  ", "abcd");
  const SafetensorsFile file(path);
  EXPECT_FALSE(file.contains("layer.wieght"));
  expect_error([&] { file.tensor("layer.wieght"); }, {"'layer.wieght'", "did you mean 'layer.weight'?"});
  expect_error([&] { file.tensor("layer.weight"); }, {"'layer.weight'", "U16", "not supported"});
}

TEST(Safetensors, AnEmptyFileOfNoTensors) {
  const TemporaryFolder folder;
  save_safetensors(folder / "x", {});
  EXPECT_TRUE(SafetensorsFile(folder / "x").names().empty());
}

TEST(Safetensors, SaveRefusesWhatItCannotWrite) {
  const TemporaryFolder folder;
  Context ctx({.device = Device::cpu()});
  const Tensor t = Tensor::full(ctx, {1}, 1.0F);
  expect_error([&] { save_safetensors(folder / "x", {{"a", t}, {"a", t}}); }, {"'a'", "twice"});
  expect_error([&] { save_safetensors(folder / "x", {{"a", Tensor()}}); }, {"'a'", "undefined"});
  expect_error([&] { save_safetensors(folder / "x", {{"__metadata__", t}}); }, {"__metadata__"});
  expect_error([&] { save_safetensors(folder / "x", {{"\xff", t}}); }, {"UTF-8"});
  expect_error([&] { save_safetensors(folder / "absent" / "x", {{"a", t}}); }, {"absent", "No such file"});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, AFailedWriteLeavesTheOldFile) {
  const TemporaryFolder folder;
  Context ctx({.device = Device::cpu()});
  save_safetensors(folder / "x", {{"w", Tensor::full(ctx, {4}, 1.0F)}});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);  // a write past the limit fails instead
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error([&] { save_safetensors(folder / "x", {{"w", Tensor::full(ctx, {100'000}, 2.0F)}}); }, {"cannot write", "File too large"});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  expect_near(SafetensorsFile(folder / "x").tensor("w"), {1, 1, 1, 1}, 0.0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace transformer::test
