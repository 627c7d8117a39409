// transformer forecast: the next values of a series, with their dates.
#include <memory>
#include <optional>

#include "cli/compute.h"
#include "cli/files.h"
#include "cli/flags.h"
#include "cli/verbs.h"
#include "io/shared/output_file.h"
#include "transformer/explain/plot.h"
#include "transformer/predict/forecaster.h"

namespace transformer::cli {
namespace {

struct ForecastVerb {
  std::string model = {}, adapter = {};
  std::string csv = {}, out = {}, plot = {};
  std::int64_t steps = 0;
  std::int64_t plot_history = 0;

  static void visit(auto& self, auto&& field) {
    field("adapter", self.adapter, adapter_help);
    field("csv", self.csv, "the series so far: a row of names, dates, the model's channels; .gz too; - is standard input");
    field("steps", self.steps, "rows to forecast (0: the model's horizon; more are made by feeding the forecast back)");
    field("out", self.out, "CSV file for the forecast; .gz is compressed (empty: standard output)");
    field("plot", self.plot, "picture of the history and the forecast, channel by channel (SVG)");
    field("plot_history", self.plot_history, "rows of history in the picture (0: as many as the model looks back on)");
  }
};

// What can be said of the names before anything is computed.
void check_names(const ForecastVerb& verb) {
  if (!verb.plot.empty() && !verb.plot.ends_with(".svg")) throw CLI::ValidationError("--plot: expected a name that ends in .svg");
  keep_apart({{"MODEL", verb.model}, {"--csv", verb.csv}}, {{"--out", or_standard(verb.out)}, {"--plot", verb.plot}});
}

// The table, in a file or on standard output, and then the picture. Nothing is written when one of the files cannot be made.
void write(const ForecastVerb& verb, const std::string& table, const std::string& picture) {
  OutputFile out(verb.out);
  std::optional<OutputFile> plot;
  if (!verb.plot.empty()) plot.emplace(verb.plot).stream() << picture << std::flush;
  out.stream() << table;
  out.commit();
  if (plot) plot->commit();
}

// Of each column of the forecast, by what the last rows of the history differ by.
std::vector<int> decimals_of(const SeriesTable& history, const SeriesForecast& next, std::int64_t rows) {
  std::vector<int> out;
  const std::size_t columns = std::max<std::size_t>(next.quantiles.size(), 1);  // of a channel: the point and the other quantiles
  for (const std::string& channel : next.point.channels) {
    const std::int64_t c = std::find(history.channels.begin(), history.channels.end(), channel) - history.channels.begin();
    std::vector<double> last;
    for (std::int64_t row = history.rows() - rows; row < history.rows(); ++row) last.push_back(history.at(row, c));
    out.insert(out.end(), columns, decimals_for(last));
  }
  return out;
}

void say_notes(const ForecastVerb& verb, const Forecaster& forecaster, const SeriesTable& history) {
  if (!history.dates.empty()) {
    const DateStep step = history.step();
    const std::string words = describe(step, history.format);
    const SeriesNotes* notes = forecaster.notes();
    if (notes != nullptr && !notes->step.empty() && words != notes->step)
      fmt::print(stderr, "transformer: note: the model was trained on steps of {}, {} has steps of {}\n", notes->step, history.name, words);
    if (step.irregular > 0)
      fmt::print(
          stderr,
          "transformer: note: {} has a row every {}, but {} of its {} rows are further apart or nearer; the forecast goes on in steps "
          "of {}\n",
          history.name, words, step.irregular, history.rows(), words);
  }
  if (verb.steps > forecaster.horizon())
    fmt::print(stderr, "transformer: note: {} steps are more than the model's horizon of {}: the forecast is fed back to go on from{}\n",
               verb.steps, forecaster.horizon(), forecaster.quantiles().empty() ? "" : ", and the quantiles beyond it are too close to it");
}

SeriesPlot plot_of(const SeriesTable& history, const SeriesForecast& forecast, std::int64_t rows, const std::string& title) {
  const SeriesTable& next = forecast.point;
  const std::int64_t first = history.rows() - std::min(rows, history.rows());
  SeriesPlot plot{.title = title};
  if (const auto& q = forecast.quantiles; q.size() > 1)
    plot.band = fmt::format("{:.10g} to {:.10g} %", 100.0 * q.front(), 100.0 * q.back());
  for (std::int64_t row = first; row < history.rows() && !history.dates.empty(); ++row) plot.dates.push_back(history.date(row));
  for (std::int64_t row = 0; row < next.rows() && !next.dates.empty(); ++row) plot.dates.push_back(next.date(row));
  for (std::int64_t c = 0; c < std::ssize(next.channels); ++c) {
    SeriesPanel& panel = plot.panels.emplace_back(SeriesPanel{.title = next.channels[static_cast<std::size_t>(c)]});
    const std::int64_t known = std::find(history.channels.begin(), history.channels.end(), panel.title) - history.channels.begin();
    for (std::int64_t row = first; row < history.rows(); ++row) panel.history.push_back(history.at(row, known));
    for (std::int64_t row = 0; row < next.rows(); ++row) {
      panel.forecast.push_back(next.at(row, c));
      if (plot.band.empty()) continue;
      panel.low.push_back(forecast.at(row, c, 0));
      panel.high.push_back(forecast.at(row, c, std::ssize(forecast.quantiles) - 1));
    }
  }
  return plot;
}

void forecast(const ForecastVerb& verb, const TableOptions& table, const ComputeConfig& compute) {
  if (verb.model.empty()) throw CLI::RequiredError("MODEL");
  if (verb.csv.empty()) throw CLI::RequiredError("--csv");
  if (verb.steps < 0 || verb.plot_history < 0) throw CLI::ValidationError("--steps and --plot-history: expected 0 or more");
  check_names(verb);
  Context ctx(compute.context());
  const Forecaster forecaster = Forecaster::load(ctx, verb.model, verb.adapter);
  const SeriesTable history = forecaster.read(verb.csv, table);
  say_notes(verb, forecaster, history);
  const SeriesForecast next = forecaster.forecast(ctx, history, verb.steps);
  const std::int64_t shown = verb.plot_history > 0 ? verb.plot_history : forecaster.context();
  const std::string title = fmt::format("{}: the next {} rows", history.name, next.point.rows());
  write(verb, write_table(next.table(), decimals_of(history, next, forecaster.context())),
        verb.plot.empty() ? "" : series_svg(plot_of(history, next, shown, title)));
}

}  // namespace

void add_forecast(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("forecast", "the next values of a series, with their dates");
  auto config = std::make_shared<ForecastVerb>();
  auto table = std::make_shared<TableOptions>();
  auto compute = std::make_shared<ComputeConfig>();
  verb->add_option("MODEL", config->model, "a forecasting model's folder");
  add_settings(*verb, *config, *table, *compute);
  verb->callback([=] { forecast(*config, *table, *compute); });
}

}  // namespace transformer::cli
