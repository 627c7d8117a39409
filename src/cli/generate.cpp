// transformer generate: text that goes on from prompts, or answers them, written as it is made.
#include <iostream>
#include <memory>
#include <random>

#include "cli/compute.h"
#include "cli/files.h"
#include "cli/flags.h"
#include "cli/stop.h"
#include "cli/verbs.h"
#include "io/shared/chunks.h"
#include "io/shared/line_stream.h"
#include "io/shared/read_file.h"
#include "transformer/core/setting_error.h"
#include "transformer/predict/generator.h"

namespace transformer::cli {
namespace {

struct GenerateConfig {
  std::string model = {}, adapter = {};
  std::string prompt = {}, prompt_file = {};
  bool prompt_given = false;  // an empty one is a prompt too
  bool ids = false, chat = false, slide = true;
  std::string system = {};
  std::optional<std::int64_t> seed = {};
  std::int64_t batch = 16;

  bool has_prompt() const { return prompt_given || !prompt.empty(); }
  static void visit(auto& self, auto&& field) {
    field("adapter", self.adapter, adapter_help);
    field("prompt", self.prompt, "what to go on from; without it the lines of standard input, one prompt each");
    field("prompt_file", self.prompt_file, "a file that is the prompt as a whole");
    field("ids", self.ids, "prompts and what is generated are the numbers of tokens");
    field("chat", self.chat, "a prompt is what a user says: it is put into the model's chat template");
    field("slide", self.slide,
          "go on when a model's table of positions is full: the older half of the text is forgotten, and of a longer prompt the beginning");
    field("system", self.system, "with --chat: what the model is told first");
    field("seed", self.seed, "of draws; the same one gives the same text (none: another one each time)");
    field("batch", self.batch, "prompts of standard input that are computed together, if they are there");
  }
};

void check_usage(const GenerateConfig& config, const GenerationWishes& wishes) {
  if (config.model.empty()) throw CLI::RequiredError("MODEL");
  if (config.has_prompt() && !config.prompt_file.empty()) throw CLI::ValidationError("--prompt and --prompt-file exclude each other");
  if (config.ids && config.chat) throw CLI::ValidationError("--ids and --chat exclude each other: a chat template is text");
  if (config.ids && !wishes.stop.empty()) throw CLI::ValidationError("--ids and --stop exclude each other: --stop is text");
  if (!config.system.empty() && !config.chat) throw CLI::ValidationError("--system is the beginning of a chat: add --chat");
}

// The settings of the folder with the user's wishes. What is wrong is named as the user knows it.
GenerationConfig settings_of(const GenerationConfig& folder, const GenerationWishes& wishes, const std::string& model) {
  GenerationConfig settings = with_wishes(folder, wishes);
  if (!settings.max_new_tokens && !settings.max_length) settings.max_new_tokens = 256;
  try {
    check(settings);
  } catch (const SettingError& e) {
    const auto in_wishes = [](std::string text) {
      for (const auto& [key, wish] : {std::pair{"do_sample to false", "`temperature` to 0"},
                                      {"do_sample", "`temperature`"},
                                      {"num_beams", "`beam`"},
                                      {"stop_strings", "`stop`"}})
        if (const std::size_t at = text.find(key); at != std::string::npos) text.replace(at, std::string_view(key).size(), wish);
      return text;
    };
    std::string key = in_wishes(e.key());
    std::erase(key, '`');
    const nlohmann::json given = to_json(wishes);
    if (!given.contains(key) || given.at(key).empty()) fail(model, "generation_config.json: {} {}", e.key(), e.problem());
    throw SettingError(e.where(), key, in_wishes(e.problem()));
  }
  return settings;
}

std::string read_prompt(const std::string& path) {
  std::string text = read_file(path);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void generate(const GenerateConfig& config, const GenerationWishes& wishes, const ComputeConfig& compute) {
  check_usage(config, wishes);
  keep_apart({{"--prompt-file", config.has_prompt() ? "" : or_standard(config.prompt_file)}}, {{"", "-"}});
  Context ctx(compute.context());
  const Generator generator = Generator::load(ctx, config.model, {.text = !config.ids, .slide = config.slide, .adapter = config.adapter});
  const GenerationConfig settings = settings_of(generator.config(), wishes, config.model);

  const std::atomic<bool>* stop = stop_on_signals();
  LineStream standard_input;
  PromptStream prompts{.batch = config.batch, .stopped = [stop] { return stop->load(); }};
  if (config.has_prompt() || !config.prompt_file.empty()) {
    prompts.next = lines_of({config.has_prompt() ? config.prompt : read_prompt(config.prompt_file)});
  } else {
    prompts.next = [&](std::string& line) {
      while (!standard_input.ready(100))
        if (stop->load()) return false;
      return standard_input.next(line);
    };
    prompts.ready = [&] { return standard_input.ready(20); };  // milliseconds: a busy writer is waited for
  }
  const auto ids_of = [&](const std::string& text) {
    if (config.ids) return parse_ids(text);
    if (!config.chat) return generator.encode(text);
    std::vector<ChatMessage> messages;
    if (!config.system.empty()) messages.push_back({"system", config.system});
    messages.push_back({"user", text});
    return generator.encode_chat(messages);
  };
  prompts.ids = [&, read = std::int64_t{0}, said = std::int64_t{0}](const std::string& text) mutable {
    constexpr std::int64_t enough = 10;
    const std::vector<std::int32_t> ids = ids_of(text);
    ++read;
    if (const std::string odd = generator.odd_about(ids); !odd.empty() && said < enough)
      fmt::print(stderr, "transformer: note: prompt {} {}{}\n", read, odd, ++said == enough ? "; the like is not said again" : "");
    return ids;
  };
  const std::uint64_t seed = config.seed ? static_cast<std::uint64_t>(*config.seed) : std::random_device()();
  generate_stream(ctx, generator, prompts, std::cout, settings, {.seed = seed});
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("generate", "text that goes on from a prompt, written as it is made");
  auto config = std::make_shared<GenerateConfig>();
  auto wishes = std::make_shared<GenerationWishes>();
  auto compute = std::make_shared<ComputeConfig>();
  verb->add_option("MODEL", config->model, "a model's folder; what is not set here is as its generation_config.json says");
  add_settings(*verb, *config, *wishes, *compute);
  verb->callback([=] {
    config->prompt_given = verb->count("--prompt") > 0;
    generate(*config, *wishes, *compute);
  });
}

}  // namespace transformer::cli
