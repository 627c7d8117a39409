// The demonstration, far too short to learn anything: that it runs, and goes on where it was stopped.
#include "toys/shared/demo.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "transformer/train/trainer.h"

namespace transformer::test {

TEST(Demo, GoesOnInTheSameFolder) {
  const TemporaryFolder folder;
  DemoOptions options{.out = (folder / "demo").string(), .sentences = 4000, .updates = 2};
  Context ctx({.seed = 1});
  EXPECT_GT(run_demo(ctx, options).tested, 0);
  EXPECT_EQ(latest_checkpoint(options.out)->filename(), "step-00000002");
  options.updates = 3;
  const DemoResult further = run_demo(ctx, options);
  EXPECT_EQ(latest_checkpoint(options.out)->filename(), "step-00000003");
  EXPECT_TRUE(std::filesystem::exists(further.picture));
}

}  // namespace transformer::test
