// transformer explain: a look inside a model: pictures of what it attends to, what it says next, how it tells places apart.
#include <memory>

#include "cli/compute.h"
#include "cli/files.h"
#include "cli/flags.h"
#include "cli/verbs.h"
#include "io/shared/atomic_file.h"
#include "transformer/explain/explainer.h"
#include "transformer/explain/report.h"

namespace transformer::cli {
namespace {

enum class Shown : std::uint8_t { automatic, attention, matrix, rollout, next, example, positions, waves };
EnumNames<Shown> names(Shown) {
  return {{Shown::automatic, "auto"}, {Shown::attention, "attention"}, {Shown::matrix, "matrix"},       {Shown::rollout, "rollout"},
          {Shown::next, "next"},      {Shown::example, "example"},     {Shown::positions, "positions"}, {Shown::waves, "waves"}};
}

struct ExplainConfig {
  std::string model = {}, adapter = {};
  std::string text = {}, target = {}, image = {}, csv = {}, out = {};
  Shown view = Shown::automatic;
  std::string attention = {};
  std::int64_t layer = 0, head = 0, query = -1, channel = 0, beam = 4;
  std::int64_t positions = 100, d_model = 128;
  std::vector<std::int64_t> dimensions = {};
  Theme theme = Theme::automatic;

  static void visit(auto& self, auto&& field) {
    field("adapter", self.adapter, adapter_help);
    field("text", self.text, "what to look at, for models of text; for translators the source");
    field("target", self.target, "translators: the translation to look at (empty: the one that is found)");
    field("image", self.image, "a picture, for models of images");
    field("csv", self.csv, "a table, for models of series");
    field("out", self.out, "where it is written: .svg or .png, one picture; .html, all of them in one file; .json, the numbers");
    field("view", self.view,
          "the picture: attention, a map of it (of images and series: over the picture, over the curve); matrix; rollout through all "
          "layers; next, what may come next; example, one head step by step; positions, their heat map; waves, their curves; auto: rollout "
          "of images unless --attention says which, attention of others");
    field("attention", self.attention,
          "which: self; of translators encoder, decoder or cross; of Swin stage1 … (empty: the last of these)");
    field("layer", self.layer, "from 0 (-1: the last)");
    field("head", self.head, "from 0 (-1: the mean of all)");
    field("query", self.query, "images and series: the token that looks, from 0 (-1: the first of an image, the last of a series)");
    field("channel", self.channel, "series: the channel that is looked at, from 0");
    field("beam", self.beam, "translators: hypotheses of the search");
    field("positions", self.positions, "positions and waves: how many places");
    field("d_model", self.d_model, "positions and waves without a MODEL: dimensions of the sinusoids");
    field("dimensions", self.dimensions, "waves: the dimensions that are drawn, four at most");
    field("theme", self.theme, "colours of pictures; auto: as the reader's system is (.png: light)");
  }
};

bool ends(const ExplainConfig& c, const char* ending) { return c.out.ends_with(ending); }

void check(const ExplainConfig& c) {
  if (c.out.empty()) throw CLI::RequiredError("--out");
  if (!ends(c, ".svg") && !ends(c, ".png") && !ends(c, ".html") && !ends(c, ".json"))
    throw CLI::ValidationError("--out: expected a name that ends in .svg or .png, or .html or .json");
  const int inputs = (c.text.empty() ? 0 : 1) + (c.image.empty() ? 0 : 1) + (c.csv.empty() ? 0 : 1);
  const bool places = c.view == Shown::positions || c.view == Shown::waves;
  if (inputs > 1) throw CLI::ValidationError("--text, --image and --csv exclude each other");
  if (c.model.empty() && !places) throw CLI::RequiredError("MODEL");
  if (inputs == 0 && !places) throw CLI::RequiredError("--text, --image or --csv");
  if (places && (ends(c, ".html") || ends(c, ".json"))) throw CLI::ValidationError("--view: this one is a picture, .svg or .png");
  keep_apart({{"MODEL", c.model}, {"--image", c.image}, {"--csv", c.csv}}, {{"--out", c.out}});
}

Explanation look(Context& ctx, const ExplainConfig& c, const Explainer& explainer) {
  ExplainOptions options{.beams = c.beam, .channel = c.channel};
  if (!c.target.empty()) options.target = c.target;
  if (!c.image.empty()) return explainer.image(ctx, read_image(c.image), options);
  if (!c.csv.empty())
    return explainer.series(ctx, explainer.forecaster() != nullptr ? explainer.forecaster()->read(c.csv) : read_csv(c.csv), options);
  return explainer.text(ctx, c.text, options);
}

// What was said, for who reads the terminal.
void tell(const Explanation& seen) {
  if (seen.kind == "translation") fmt::print("{}\n", seen.text);
  else if (!seen.predictions.empty())
    fmt::print("{}\t{:.6f}\n", seen.predictions.back().choices.front().text, seen.predictions.back().choices.front().probability);
}

void save(const ExplainConfig& c, const std::string& svg) {
  AtomicFile file(c.out);
  file.write(ends(c, ".png") ? svg_to_png(svg) : svg);
  file.commit();
}

void explain(const ExplainConfig& c, const ComputeConfig& compute) {
  check(c);
  Context ctx(compute.context());
  const Theme theme = ends(c, ".png") && c.theme == Theme::automatic ? Theme::light : c.theme;
  if (c.view == Shown::positions || c.view == Shown::waves) {
    const PositionTable table = c.model.empty()
        ? sinusoidal_positions(ctx, c.positions, c.d_model)
        : positions_of(ctx, *load_model(ctx, c.model, {.dtype = ctx.precision(), .adapter = c.adapter}), c.positions);
    return save(c, c.view == Shown::waves ? waves_svg(table, c.dimensions, theme) : positions_svg(table, theme));
  }
  if (!c.image.empty()) check_image_header(c.image);
  const Explainer explainer = Explainer::load(ctx, c.model, c.adapter);
  const Explanation seen = look(ctx, c, explainer);
  PictureOptions options{.map = {.attention = c.attention, .layer = c.layer, .head = c.head}, .query = c.query, .theme = theme};
  if (ends(c, ".json")) {
    AtomicFile file(c.out);
    file.write(to_json(seen, {.map = options.map, .rollout = true, .example = true}).dump() + "\n");
    file.commit();
  } else if (ends(c, ".html")) {
    options.title = !c.text.empty() ? c.text : std::filesystem::path(c.image.empty() ? c.csv : c.image).filename().string();
    if (!seen.stacks.empty()) options.positions = positions_of(ctx, explainer.model(), c.positions);
    save(c, report_html(seen, options));
  } else {
    const View view = c.view == Shown::automatic ? (c.image.empty() || !c.attention.empty() ? View::attention : View::rollout)
                                                 : static_cast<View>(static_cast<int>(c.view) - 1);
    save(c, picture_of(seen, view, options));
  }
  tell(seen);
}

}  // namespace

void add_explain(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("explain", "a look inside a model: attention, what comes next, positions, as pictures or numbers");
  auto config = std::make_shared<ExplainConfig>();
  auto compute = std::make_shared<ComputeConfig>();
  verb->add_option("MODEL", config->model, "a model's folder");
  add_settings(*verb, *config, *compute);
  verb->callback([=] { explain(*config, *compute); });
}

}  // namespace transformer::cli
