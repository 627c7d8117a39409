#pragma once
// Models for other programs, over HTTP: OpenAI's and LibreTranslate's ways to ask, and the page that shows a model at work.
//
//   serve::Server server({.port = 0});            // 127.0.0.1, a port that is free
//   server.add_model("gpt2", "models/gpt2");
//   server.start();                               // loads the models, listens
//   fmt::print("http://127.0.0.1:{}\n", server.port());
//   …
//   server.stop();                                // what is under way is finished

#include <filesystem>
#include <memory>

#include "transformer/core/context.h"
#include "transformer/io/config.h"

namespace transformer::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::int64_t port = 8080;
  std::string api_key = {};
  std::string cors_origin = {};
  std::int64_t max_sequences = 256;
  std::int64_t max_queue = 1024;
  std::int64_t max_tokens = 4096;
  std::int64_t max_context = 0;
  std::int64_t max_body_bytes = 8 << 20;
  std::int64_t max_connections = 20000;
  double max_seconds = 600.0;

  static void visit(auto& self, auto&& field) {
    field("host", self.host, "address to listen at; 0.0.0.0: all that this machine has, for others to reach");
    field("port", self.port, "port to listen at (0: one that is free)");
    field("api_key", self.api_key, "clients must send it, as 'Authorization: Bearer KEY' (empty: none is wanted)");
    field("cors_origin", self.cors_origin, "pages of this origin may ask from a browser, *: of any (empty: none but its own)");
    field("max_sequences", self.max_sequences, "sequences that a model computes together");
    field("max_queue", self.max_queue, "requests that wait for a model at most; more are told to come later");
    field("max_tokens", self.max_tokens, "tokens that an answer may have");
    field("max_context", self.max_context, "tokens that a prompt and its answer may have together (0: what the model says)");
    field("max_body_bytes", self.max_body_bytes, "bytes that a request may have");
    field("max_connections", self.max_connections, "open connections");
    field("max_seconds", self.max_seconds, "seconds that a request may take");
  }
};

class Server {
 public:
  // context: of each model's thread.
  explicit Server(const ServerOptions& options = {}, const ContextOptions& context = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Before start. Clients ask for it by its name. Error when there is one of that name.
  void add_model(const std::string& name, const std::filesystem::path& folder);
  // The folder of a training: its curves, and what its newest checkpoint says (/training/metrics, /training/sample).
  void add_training(const std::filesystem::path& folder);

  void start();      // Error when a model cannot be loaded, or the address not be had
  int port() const;  // that it listens at
  void stop();       // takes nothing new, finishes what is under way, and ends

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace transformer::serve
