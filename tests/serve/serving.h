#pragma once
// A server of small models on a free port of this machine, and clients for it.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

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

// A connection with no manners.
class RawClient {
 public:
  explicit RawClient(int port, int seconds = 30) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
    const int yes = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    const timeval patience{.tv_sec = seconds, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  int socket() const { return socket_; }
  bool connected() const { return connected_; }
  bool send(const std::string& text) const { return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text); }
  std::string receive(std::size_t most = 1 << 20) const {  // until the server closes
    std::string all(most, '\0');
    std::size_t size = 0;
    for (ssize_t n = 0; size < most && (n = ::recv(socket_, all.data() + size, most - size, 0)) > 0;) size += static_cast<std::size_t>(n);
    return all.substr(0, size);
  }
  std::string receive_some() const {
    std::string some(4096, '\0');
    const ssize_t n = ::recv(socket_, some.data(), some.size(), 0);
    return some.substr(0, n > 0 ? static_cast<std::size_t>(n) : 0);
  }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

 private:
  int socket_;
  bool connected_ = false;
};

inline std::string request_text(const std::string& path, const nlohmann::json& body) {
  const std::string text = body.dump();
  return fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", path, text.size(),
                     text);
}

}  // namespace transformer::test
