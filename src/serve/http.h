#pragma once
// HTTP connections: httplib's server for the protocol, and in front of it a loop that watches connections, so that one which is idle or
// slow to say what it wants holds no thread.
//
// httplib serves a connection by a thread from its first byte to its end. Here a thread (Gate) watches all sockets by epoll: it accepts,
// and hands a connection to a worker when the whole head of a request is there, and its body if it is small. A worker answers one request
// and hands the connection back. So ten thousand idle connections cost ten thousand descriptors; workers are made as they are needed, up to
// a limit.

#include <httplib.h>

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace transformer::serve {

struct HttpLimits {
  std::int64_t body_bytes = 8 << 20;
  std::int64_t head_bytes = 64 << 10;        // of the request line and the headers
  std::int64_t connections = 20000;          // open ones; more are closed at once
  int workers = 256;                         // requests that are answered at the same time
  std::chrono::milliseconds idle{60000};     // between requests
  std::chrono::milliseconds linger{5};       // that a worker waits for the next request of the client that it has answered
  std::chrono::milliseconds receive{10000};  // from the first byte of a request to its last
  std::chrono::milliseconds send{10000};     // that a client may let an answer wait
};

class HttpServer final : public httplib::Server {
 public:
  explicit HttpServer(const HttpLimits& limits);
  ~HttpServer() override;

  int bind(const std::string& host, int port);  // the port; 0: one that is free. Error when it cannot be
  void start();
  // No new connections or requests; those that are being answered are finished.
  void finish();
  // The error that is sent without a request: a head that is too large, say.
  std::string (*error_body)(int status) = nullptr;

  std::int64_t open_connections() const { return open_; }
  // Says whether the client of the request that the calling thread answers has gone. Any thread may ask until it is answered.
  static std::function<bool()> client_is_gone();

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    Clock::time_point until;  // when it is given up
    bool begun = false;       // part of a request is there
  };

  struct Request {
    int socket = -1;
    std::int64_t bytes = -1;  // of all of it; -1: its body says where it ends
    bool last = false;        // of its connection
  };
  // On a connection: part of a request, a whole one; a head that is too large, or wrong.
  enum class Arrived { nothing, part, request, too_much, wrong, end };
  struct Arrival {
    Arrived what;
    Request request = {};
  };

  Arrival arrived(int socket) const;
  void watch();
  void take_back();
  bool listen_to(int socket) const;
  void accept_new();
  void look_at(int socket);
  void give_up_late_ones();
  void refuse(int socket, int status);
  void drop(int socket);
  void hand_to_worker(Request request);
  void work();
  std::optional<Request> another_of(int socket);
  bool answer(Request request);  // one request; does the connection go on?

  HttpLimits limits_;
  int epoll_ = -1, wake_ = -1;
  std::atomic<bool> finishing_{false};
  std::atomic<std::int64_t> open_{0};
  std::thread watcher_;
  std::unordered_map<int, Connection> watched_;  // the watcher's alone

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> ready_;  // for workers
  std::vector<int> returned_;  // from workers
  std::vector<std::thread> workers_;
  int idle_workers_ = 0;
  bool no_more_work_ = false;
};

}  // namespace transformer::serve
