#include "support/op_check.h"

namespace transformer::test {

TEST(Tensor, SharesStorageAndKeepsRowStrides) {
  Context ctx({.device = Device::cpu()});
  Tensor t = tensor(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor c = t.column_block(1, 2);
  EXPECT_EQ(c.shape().str(), "[2, 2]");
  EXPECT_EQ(c.row_stride(), 3);
  EXPECT_FALSE(c.is_contiguous());
  EXPECT_EQ(c.to_vector<float>(), (std::vector<float>{2, 3, 5, 6}));
  EXPECT_EQ(t.row_block(1, 1).to_vector<float>(), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(t.view({3, -1}).shape().str(), "[3, 2]");
  expect_error([&] { t.view({4, 2}); }, {"view", "[4, 2]", "[2, 3]"});
  expect_error([&] { (void)t.data<std::int64_t>(); }, {"int64", "float32"});
}

TEST(Tensor, NewOnesHaveTheirValues) {
  Context ctx({.device = Device::cpu()});
  EXPECT_EQ(Tensor::zeros(ctx, {2, 2}).to_vector<float>(), (std::vector<float>(4, 0.0F)));
  EXPECT_EQ(Tensor::full(ctx, {3}, 1.5F).to_vector<float>(), (std::vector<float>(3, 1.5F)));
  EXPECT_EQ(static_cast<float>(Tensor::full(ctx, {3}, 1.5F, DType::bfloat16).to_vector<bfloat16>()[2]), 1.5F);
  EXPECT_EQ((Tensor::from<std::int64_t>(ctx, {2}, {7, -8}).to_vector<std::int64_t>()), (std::vector<std::int64_t>{7, -8}));
  const Tensor like = Tensor::like(ctx, Tensor::zeros(ctx, {4, 5}, DType::bfloat16));
  EXPECT_EQ(like.shape().str(), "[4, 5]");
  EXPECT_EQ(like.dtype(), DType::bfloat16);
  EXPECT_EQ(Tensor::full(ctx, {1}, 3.0F).item(), 3.0F);
  expect_error([&] { (void)Tensor::full(ctx, {2}, 3.0F).item(); }, {"item", "[2]"});
  expect_error([&] { Tensor::from<float>(ctx, {3}, {1, 2}); }, {"[3]", "2"});
}

TEST(Tensor, OneThatIsAbsentSaysSo) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_EQ(none.raw(), nullptr);
  expect_error([&] { (void)none.data<float>(); }, {"undefined"});
  expect_error([&] { (void)none.item(); }, {"item", "one element"});
  expect_error([&] { (void)none.to_vector<float>(); }, {"undefined"});
}

TEST(Tensor, NothingInItIsNoError) {
  Context ctx({.device = Device::cpu()});
  for (const Shape& shape : {Shape{0}, Shape{0, 4}, Shape{4, 0}, Shape{2, 0, 3}}) {
    const Tensor t = Tensor::zeros(ctx, shape);
    EXPECT_TRUE(t.defined());
    EXPECT_EQ(t.numel(), 0);
    EXPECT_EQ(t.rows() * t.cols(), 0);
    EXPECT_TRUE(t.to_vector<float>().empty());
    EXPECT_TRUE(t.is_contiguous());
  }
  const Tensor t = tensor(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(t.row_block(2, 0).numel(), 0);
  EXPECT_EQ(t.column_block(3, 0).numel(), 0);
}

TEST(Tensor, AViewIsTheSameMemory) {
  Context ctx({.device = Device::cpu()});
  Tensor t = tensor(ctx, {2, 3, 4}, std::vector<float>(24, 0.0F));
  Tensor block = t.row_block(1, 1).column_block(1, 2);
  EXPECT_EQ(block.shape().str(), "[1, 3, 2]");
  EXPECT_EQ(block.offset(), 13);
  EXPECT_EQ(block.storage(), t.storage());
  block.mutable_data<float>()[block.row_stride()] = 5.0F;  // its row 1, column 0
  EXPECT_EQ(t.to_vector<float>()[17], 5.0F);
  EXPECT_EQ(block.to_vector<float>(), (std::vector<float>{0, 0, 5, 0, 0, 0}));
  EXPECT_TRUE(t.view({24}).same_memory(t.view({24})));
  EXPECT_FALSE(t.view({24}).same_memory(t));
  Tensor copy = t;  // a value that shares its storage
  copy.mutable_data<float>()[0] = 9.0F;
  EXPECT_EQ(t.to_vector<float>()[0], 9.0F);
}

TEST(Tensor, ViewsKnowTheirBounds) {
  Context ctx({.device = Device::cpu()});
  const Tensor t = tensor(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  for (const auto& [begin, count] : {std::pair{1, 2}, {-1, 1}, {0, 3}, {0, -1}, {3, 0}})
    expect_error([&, b = begin, n = count] { t.row_block(b, n); }, {"[2, 3]"});
  for (const auto& [begin, count] : {std::pair{2, 2}, {-1, 1}, {0, 4}, {0, -1}, {4, 0}})
    expect_error([&, b = begin, n = count] { t.column_block(b, n); }, {"[2, 3]"});
  expect_error([&] { t.view({-1, -1}); }, {"view"});
  expect_error([&] { t.view({-1, 4}); }, {"view", "[2, 3]"});
  // Rows that are further apart than they are long cannot be joined.
  expect_error([&] { t.column_block(0, 2).view({4}); }, {"view", "[2, 2]"});
}

TEST(Tensor, AWriteRaisesTheVersionOfWhatIsShared) {
  Context ctx({.device = Device::cpu()});
  Tensor t = Tensor::zeros(ctx, {2, 2});
  const std::uint64_t before = t.storage()->version;
  (void)t.data<float>();
  EXPECT_EQ(t.storage()->version, before);
  (void)t.row_block(0, 1).mutable_data<float>();
  EXPECT_GT(t.storage()->version, before);
}

TEST(Tensor, WrappedMemoryLivesAsLongAsItIsUsed) {
  bool freed = false;
  Tensor view;
  {
    const std::shared_ptr<std::byte> owner(new std::byte[8], [&freed](const std::byte* p) {
      freed = true;
      delete[] p;
    });
    const float values[] = {1.0F, 2.0F};
    std::copy_n(reinterpret_cast<const std::byte*>(values), sizeof(values), owner.get());
    view = Tensor::wrap(owner, {2}, DType::float32).row_block(1, 1);
  }
  EXPECT_FALSE(freed);
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{2.0F}));
  view = Tensor();
  EXPECT_TRUE(freed);
}

}  // namespace transformer::test
