// A model's loops: what is asked for is spread over them.
#include "serve/engine.h"

#include <atomic>
#include <future>

#include "generate/shared/call.h"
#include "serve/hosted.h"
#include "serve/serving.h"

namespace transformer::test {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<serve::Engine::Job> engine_job(const serve::HostedModel& model, std::vector<std::int32_t> prompt,
                                               std::function<bool(const GeneratedToken&)> on_token, std::function<void()> found) {
  GenerateOptions options;
  options.on_token = std::move(on_token);
  const auto call = std::make_shared<const GenerationCall>(GenerationConfig{.max_new_tokens = 3}, options);
  auto job = std::make_unique<serve::Engine::Job>();
  job->ids = std::move(prompt);
  job->source = call->source(model.generator()->model(), job->ids, 0, [call, found](const std::vector<Generated>&) { found(); });
  job->source.failed = [found](std::exception_ptr) { found(); };
  return job;
}

// The first one's loop is held up until the second one is answered: by another loop.
TEST(ServeEngine, ASmallModelHasALoopForEachThread) {
  const ServedModels models;
  serve::HostedModel model("gpt", models.gpt.path(), {.device = Device::cpu(), .threads = 2}, {});
  model.loaded();
  std::promise<void> begun, first, second;
  std::shared_future<void> answered = second.get_future();
  std::atomic<bool> seen = false, in_time = false;
  model.engine().submit(engine_job(
      model, {5, 6, 7},
      [&](const GeneratedToken&) {
    if (!seen.exchange(true)) begun.set_value(), in_time = answered.wait_for(20s) == std::future_status::ready;
    return false;
      },
      [&] { first.set_value(); }));
  begun.get_future().wait();
  model.engine().submit(engine_job(
      model, {7, 6, 5}, [](const GeneratedToken&) { return false; }, [&] { second.set_value(); }));
  first.get_future().wait();
  EXPECT_TRUE(in_time);
  model.engine().finish();
  EXPECT_EQ(model.engine().state().rows, 0);
}

// A loop that has failed is made anew; what was counted stays counted.
TEST(ServeEngine, CountersNeverFall) {
  const ServedModels models;
  serve::HostedModel model("gpt", models.gpt.path(), {.device = Device::cpu(), .threads = 1}, {.loop = {.part = 4, .kept_tokens = 64}});
  model.loaded();
  const auto ask = [&](bool fails) {
    std::promise<void> done;
    auto job = engine_job(
        model, {5, 6, 7, 8, 9, 10}, [](const GeneratedToken&) { return false; }, [&] { done.set_value(); });
    if (fails) job->source.found = [](const std::vector<Found>&) { throw std::runtime_error("no memory"); };
    model.engine().submit(std::move(job));
    done.get_future().wait();
  };
  // Counted when the step is over, which is after the answer.
  const auto counted = [&] {
    model.engine().run([](Context&) {});
    return model.engine().state();
  };
  ask(false), ask(false);
  const serve::Engine::State before = counted();
  EXPECT_EQ(before.shared_tokens, 4);
  ask(true);
  const serve::Engine::State after = counted();
  EXPECT_GE(after.shared_tokens, before.shared_tokens);
  EXPECT_GE(after.steps, before.steps);
  EXPECT_EQ(after.rows, 0);
  ask(false), ask(false);
  EXPECT_GE(counted().shared_tokens, after.shared_tokens + 4);
}

}  // namespace
}  // namespace transformer::test
