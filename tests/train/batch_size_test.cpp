#include "train/batch_size.h"

#include <gtest/gtest.h>

namespace transformer {
namespace {

TEST(BatchSize, HalvesUntilAnEpochHasEnoughUpdates) {
  EXPECT_EQ(batch_for(1'000'000, 4096, 1), 4096);
  EXPECT_EQ(batch_for(50 * 4096, 4096, 1), 4096);
  EXPECT_EQ(batch_for(50 * 4096 - 1, 4096, 1), 2048);
  EXPECT_EQ(batch_for(30'000, 4096, 1), 512);
  EXPECT_EQ(batch_for(0, 128, 8), 8);
  EXPECT_EQ(batch_for(10, 128, 100), 128);
  EXPECT_EQ(batch_for(10, 64, 0), 1);
}

TEST(BatchSize, ABatchHasRoomForTheLongestTextAndSeveralUsualOnes) {
  TokenLists texts;
  for (int i = 0; i < 1500; ++i) texts.add(std::vector<std::int32_t>(20, 1));
  EXPECT_EQ(max_tokens_for(texts, 4096), 512);
  texts.add(std::vector<std::int32_t>(600, 1));
  EXPECT_EQ(max_tokens_for(texts, 4096), 1024);
  texts.add(std::vector<std::int32_t>(5000, 1));
  EXPECT_EQ(max_tokens_for(texts, 4096), 5000);
  TokenLists few;
  for (int i = 0; i < 10; ++i) few.add(std::vector<std::int32_t>(20, 1));
  EXPECT_EQ(max_tokens_for(few, 4096), 256);
}

}  // namespace
}  // namespace transformer
