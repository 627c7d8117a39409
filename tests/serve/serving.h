#pragma once
// A server of small models on a free port of this machine, and clients for it.

#include <gtest/gtest.h>
#include <httplib.h>

#include "predict/model_folder.h"
#include "transformer/serve/server.h"

namespace transformer::test {

inline nlohmann::json chat_tokenizer_config() {
  return {{"chat_template", "{% for m in messages %}{{ m.role }}: {{ m.content }} / {% endfor %}assistant:"},
          {"eos_token", "</s>"},
          {"bos_token", "<s>"}};
}

// gpt (decoder), mt (translator), cls (labels of texts), series (forecasts).
struct ServedModels {
  ModelFolder gpt{golden_cases("gpt2").front(), tiny_tokenizer(false), {{"eos_token_id", 2}, {"bos_token_id", 1}}};
  ModelFolder mt{golden_cases("marian").front(), tiny_tokenizer(true)};
  ModelFolder cls{golden_cases("bert-cls").front(), tiny_tokenizer(true)};
  ServedModels() {
    gpt.write("tokenizer_config.json", chat_tokenizer_config());
    gpt.write("generation_config.json", {{"eos_token_id", 2}});
  }
};

class Served {
 public:
  explicit Served(serve::ServerOptions options = {}, bool all = true) : server_(port_zero(options), {.threads = 2}) {
    server_.add_model("gpt", models_.gpt.path());
    if (all) {
      server_.add_model("mt", models_.mt.path());
      server_.add_model("cls", models_.cls.path());
      server_.add_model("series", golden_cases("patchtst").front());
    }
    server_.start();
    get("/health");  // httplib's client makes its tables with the first answer: before threads share them
  }

  httplib::Client client() const {
    httplib::Client client("127.0.0.1", server_.port());
    client.set_read_timeout(30);
    return client;
  }
  struct Answer {
    int status = 0;
    nlohmann::json body;
    httplib::Headers headers;
  };
  Answer post(const std::string& path, const nlohmann::json& body, const httplib::Headers& headers = {}) const {
    return post_text(path, body.dump(), headers);
  }
  Answer post_text(const std::string& path, const std::string& body, const httplib::Headers& headers = {}) const {
    return read(client().Post(path, headers, body, "application/json"));
  }
  Answer get(const std::string& path, const httplib::Headers& headers = {}) const { return read(client().Get(path, headers)); }

  serve::Server& server() { return server_; }
  const ServedModels& models() const { return models_; }
  int port() const { return server_.port(); }

 private:
  static serve::ServerOptions port_zero(serve::ServerOptions options) {
    options.port = 0;
    return options;
  }
  static Answer read(const httplib::Result& result) {
    if (!result) return {-1, httplib::to_string(result.error()), {}};
    return {result->status, nlohmann::json::parse(result->body, nullptr, false), result->headers};
  }
  ServedModels models_;
  serve::Server server_;
};

}  // namespace transformer::test
