// transformer train forecast: a model that forecasts a series, from a table.
#include <algorithm>
#include <memory>

#include "cli/files.h"
#include "cli/train.h"
#include "cli/train_batch.h"
#include "io/shared/json.h"
#include "transformer/toys/prices.h"
#include "transformer/train/forecast.h"

namespace transformer::cli {
namespace {

namespace fs = std::filesystem;

void say_what_was_read(const SeriesTable& table, const SeriesWindows& windows) {
  fmt::print(stderr, "{}: {} rows", table.name, table.rows());
  if (!table.dates.empty()) {
    const DateStep step = table.step();
    fmt::print(stderr, " from {} to {}, a row every {}", table.date(0), table.date(table.rows() - 1), describe(step, table.format));
    if (step.irregular > 0) fmt::print(stderr, " ({} are further apart or nearer)", step.irregular);
  }
  if (table.dropped > 0) fmt::print(stderr, "; {} rows with missing values left out", table.dropped);
  else if (table.missing > 0) fmt::print(stderr, "; {} missing values filled", table.missing);
  const Parts& parts = windows.parts();
  fmt::print(stderr, "\n{} channels; windows: {} training, {} validation, {} test\n", table.channels.size(), windows.count(parts.train),
             windows.count(parts.validation), windows.count(parts.test));
}

constexpr const char* usual_metric = "mse";  // that decides about the best model; with quantiles it is the pinball loss

enum class ToySeries : std::uint8_t { none, prices };
EnumNames<ToySeries> names(ToySeries) { return {{ToySeries::none, "none"}, {ToySeries::prices, "prices"}}; }

struct ToySeriesConfig {
  ToySeries toy = ToySeries::none;
  static void visit(auto& self, auto&& field) { field("toy", self.toy, "instead of a file: a made series of daily prices"); }
};

struct TrainForecast {
  static constexpr BatchSetting batches{ForecastConfig::usual_batch_size, "/data/batch_size", "windows", "--batch-size"};

  ForecastFineTuning start;
  ToySeriesConfig made;
  ForecastConfig data;
  ForecastModelConfig model;
  TrainConfig training{.max_epoch = 20,
                       .lr = 1e-4F,
                       .lr_scheduler = Schedule::Kind::cosine,
                       .usual_warmup = 0,
                       .adam_beta2 = 0.999F,
                       .adam_eps = 1e-8F,
                       .best_metric = usual_metric};
  ComputeConfig compute;
  SeedConfig seed;

  // With --from: the dropout that the user has set, and nothing that would make another model of the folder's.
  ForecastFineTuning fine_tuning(const CLI::App& verb) const {
    ForecastFineTuning out = start;
    std::vector<std::string> given = fields_given(verb, model);
    take(given, "dropout", model.dropout, out.dropout);
    take(given, "attention_dropout", model.attention_dropout, out.attention_dropout);
    take(given, "head_dropout", model.head_dropout, out.head_dropout);
    refuse_with_from(verb, start.from, given, {"preset"});
    return out;
  }

  ForecastTask task(Context& ctx, const ForecastFineTuning& further) const {
    if (!start.from.empty()) return {ctx, data, further};
    return {ctx, data, model, latest_checkpoint(training.save_dir)};
  }

  // The errors of a folder's model on the test part, said and written beside it.
  static void test(Context& ctx, ForecastTask& task, const fs::path& folder) {
    task.load(ctx, folder);
    const std::optional<ForecastErrors> errors = task.test(ctx);
    if (!errors) return;
    const ForecastErrors repeated = measure_last_value(task.windows(), task.windows().parts().test, task.notes());
    nlohmann::json out = errors->json();
    out["last_value"] = repeated.json();
    out["windows"] = task.windows().count(task.windows().parts().test);
    out["horizon"] = task.windows().sizes().horizon;
    write_json(folder / "test.json", out);
    fmt::print("{}", describe(*errors, fmt::format("test of {}", folder.string())));
    fmt::print("repeating the last value: MSE {:.4f}, MAE {:.4f} (scaled)\n", repeated.scaled().mse, repeated.scaled().mae);
  }

  // Sizes that nobody has given fit the rows there are.
  bool sizes_given(const CLI::App& verb) const {
    const std::vector<std::string> given = fields_given(verb, model);
    return flag_given(verb, "--preset") || std::any_of(given.begin(), given.end(), [](const std::string& name) {
             return name == "context" || name == "horizon" || name == "patch_length" || name == "stride";
           });
  }

  void run(const CLI::App& verb) {
    const ForecastFineTuning further = start.from.empty() ? start : fine_tuning(verb);
    check_lora(start.from, start.lora);
    check(training, first_process());
    data.batch_size = batches.of(data.batch_size, training);
    if (data.csv.empty() == (made.toy == ToySeries::none))
      throw CLI::ValidationError("the series is missing or given twice: give --csv, a file, or --toy");
    if (made.toy != ToySeries::none) data.series = toy_prices();
    Context ctx(context_of(compute, seed));
    model.fit = !sizes_given(verb);
    ForecastTask task = this->task(ctx, further);
    say_what_was_read(task.table(), task.windows());
    if (const auto [context, horizon] = task.windows().sizes(); model.fit && start.from.empty() && context != model.context)
      fmt::print(stderr, "context {}, horizon {}, as there are few rows (--context, --horizon, --patch-length and --stride set them)\n",
                 context, horizon);
    fmt::print(stderr, "model: {}{}\n", task.size(), start.from.empty() ? "" : fmt::format(", from {}", start.from));
    batches.say(data.batch_size, task);
    if (made.toy != ToySeries::none) {  // for transformer forecast --csv
      fs::create_directories(training.save_dir);
      write_made(fs::path(training.save_dir) / "prices.csv", write_table(task.table()));
    }
    TrainConfig training = this->training;
    if (!task.quantiles().empty() && !flag_given(verb, "--best-metric") && training.best_metric == usual_metric)
      training.best_metric = "pinball";
    train(ctx, task, training, start.lora, [&] {
      test(ctx, task, training.save_dir);
      if (training.average > 0) test(ctx, task, fs::path(training.save_dir) / "average");
    });
  }
};

}  // namespace

void add_train_forecast(CLI::App& verb) {
  CLI::App* forecast = verb.add_subcommand("forecast", "a PatchTST model that forecasts a series, from a table with dates (CSV)");
  auto settings = std::make_shared<TrainForecast>();
  add_settings(*forecast, settings->start, settings->made, settings->data, settings->model, settings->training, settings->compute,
               settings->seed);
  forecast->callback([settings, forecast] { settings->run(*forecast); });
}

}  // namespace transformer::cli
