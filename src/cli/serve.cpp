// transformer serve: models for other programs, and the page.
#include <chrono>
#include <memory>
#include <thread>

#include "cli/compute.h"
#include "cli/flags.h"
#include "cli/stop.h"
#include "cli/verbs.h"
#include "transformer/core/error.h"
#include "transformer/serve/server.h"

namespace transformer::cli {
namespace {

struct ServeConfig {
  std::vector<std::string> models = {};
  std::string training = {};

  static void visit(auto& self, auto&& field) {
    field("training", self.training, "the folder of a training, running or done: its curves are shown");
  }
};

// NAME=FOLDER, or a folder, whose own name it then is, and which may have a = in it.
std::pair<std::string, std::filesystem::path> name_and_folder(const std::string& model) {
  const std::size_t equal = std::filesystem::is_directory(model) ? std::string::npos : model.find('=');
  if (equal != std::string::npos) {
    if (equal == 0 || equal + 1 == model.size())
      throw CLI::ValidationError(fmt::format("MODEL is '{}': expected a folder, or NAME=FOLDER", model));
    return {model.substr(0, equal), model.substr(equal + 1)};
  }
  const std::filesystem::path whole = std::filesystem::absolute(model).lexically_normal();
  return {(whole.has_filename() ? whole : whole.parent_path()).filename().string(), model};  // "folder/"
}

void serve_models(const ServeConfig& config, const serve::ServerOptions& options, const ComputeConfig& compute) {
  if (config.models.empty() && config.training.empty()) throw CLI::RequiredError("MODEL");
  serve::Server server(options, compute.context());
  if (!config.training.empty()) {
    if (!std::filesystem::is_directory(config.training)) fail(config.training, "is not a folder: give the one that a training writes to");
    server.add_training(config.training);
  }
  for (const std::string& model : config.models) {
    const auto [name, folder] = name_and_folder(model);
    server.add_model(name, folder);
  }
  const std::atomic<bool>* stop = stop_on_signals();
  server.start();
  fmt::print(stderr, "listening at http://{}:{}\n", options.host.find(':') == std::string::npos ? options.host : "[" + options.host + "]",
             server.port());
  while (!stop->load()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  fmt::print(stderr, "finishing what is under way\n");
  server.stop();
}

}  // namespace

void add_serve(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("serve",
                                      "models for other programs (OpenAI's and LibreTranslate's HTTP APIs), and a page to look inside");
  auto config = std::make_shared<ServeConfig>();
  auto options = std::make_shared<serve::ServerOptions>();
  auto compute = std::make_shared<ComputeConfig>();
  verb->add_option("MODEL", config->models, "models' folders, each under its own name or as NAME=FOLDER");
  add_settings(*verb, *config, *options, *compute);
  verb->callback([=] { serve_models(*config, *options, *compute); });
}

}  // namespace transformer::cli
