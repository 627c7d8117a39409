#include "transformer/serve/server.h"

#include "serve/api.h"
#include "transformer/core/error.h"
#include "transformer/core/setting_error.h"

namespace transformer::serve {

class Server::Impl {
 public:
  Impl(const ServerOptions& options, const ContextOptions& context) : options_(options), context_(context) {
    if (options.port < 0 || options.port > 65535) wrong_setting("serve", "port", "is {}: expected 0 to 65535", options.port);
    for (const auto& [key, value] : {std::pair{"max_sequences", options.max_sequences},
                                     {"max_queue", options.max_queue},
                                     {"max_tokens", options.max_tokens},
                                     {"max_body_bytes", options.max_body_bytes},
                                     {"max_connections", options.max_connections}})
      if (value < 1) wrong_setting("serve", key, "is {}: expected 1 or more", value);
    if (options.max_context < 0) wrong_setting("serve", "max_context", "is {}: expected 0 or more", options.max_context);
    if (!(options.max_seconds > 0.0)) wrong_setting("serve", "max_seconds", "is {}: expected more than 0", options.max_seconds);
  }

  void add_model(const std::string& name, const std::filesystem::path& folder) {
    if (api_) fail("serve", "models are added before the server is started");
    if (name.empty()) fail("serve", "the model of {} has an empty name: give it one, as in NAME=FOLDER", folder.string());
    for (const auto& m : models_)
      if (m->name() == name) fail("serve", "two models are called '{}': give one another name, as in NAME=FOLDER", name);
    EngineLimits limits{.rows = options_.max_sequences, .queue = options_.max_queue};
    models_.push_back(std::make_unique<HostedModel>(name, folder, context_, limits));
  }

  void start() {
    for (const auto& m : models_) m->loaded();
    http_ = std::make_unique<HttpServer>(HttpLimits{.body_bytes = options_.max_body_bytes, .connections = options_.max_connections});
    api_ = std::make_unique<Api>(options_, models_, training_ ? &*training_ : nullptr);
    api_->add_routes(*http_);
    port = http_->bind(options_.host, static_cast<int>(options_.port));
    http_->start();
  }

  void stop() {
    if (http_ != nullptr) http_->finish();
    for (const auto& m : models_) m->engine().finish();
  }

  void add_training(const std::filesystem::path& folder) { training_.emplace(folder, context_); }

  int port = 0;

 private:
  ServerOptions options_;
  ContextOptions context_;
  std::vector<std::unique_ptr<HostedModel>> models_;
  std::optional<WatchedTraining> training_;
  std::unique_ptr<Api> api_;
  std::unique_ptr<HttpServer> http_;  // the last: its threads use the others
};

Server::Server(const ServerOptions& options, const ContextOptions& context) : impl_(std::make_unique<Impl>(options, context)) {}
Server::~Server() = default;
void Server::add_model(const std::string& name, const std::filesystem::path& folder) { impl_->add_model(name, folder); }
void Server::add_training(const std::filesystem::path& folder) { impl_->add_training(folder); }
void Server::start() { impl_->start(); }
int Server::port() const { return impl_->port; }
void Server::stop() { impl_->stop(); }

}  // namespace transformer::serve
