#include "support/op_check.h"

namespace transformer::test {

TEST(Tensor, SharesStorageAndKeepsRowStrides) {
  Context ctx;
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

}  // namespace transformer::test
