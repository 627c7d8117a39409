#include "serve/http.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <system_error>

#include "transformer/core/error.h"

namespace transformer::serve {
namespace {

using namespace std::chrono_literals;

thread_local int answered_socket = -1;
thread_local bool ends_connection = false;  // the answer says so

// A descriptor for each connection: as many as the system lets us have.
void allow_many_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return small;
}

// What the head of a request says of its body.
struct Announced {
  std::int64_t bytes = 0;  // of it; -1: it says itself where it ends
  bool expects = false;    // it comes when a worker has said "100 Continue"
  bool wrong = false;      // two lengths, one that is none, a coding that is not read here, a space before a colon: others might read
                           // another request than we do
};
Announced announced_body(std::string_view head) {
  Announced body;
  std::optional<std::string> length;
  bool chunked = false;
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos && at + 2 < head.size(); at = head.find("\r\n", at + 2)) {
    const std::string_view line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    const std::size_t colon = std::min(line.find(':'), line.size());
    const std::string name = in_small_letters(line.substr(0, colon));
    body.wrong |= name.ends_with(' ') || name.ends_with('\t');
    const std::string_view rest = line.substr(std::min(colon + 1, line.size()));
    const std::size_t first = std::min(rest.find_first_not_of(" \t"), rest.size());
    const std::string value = in_small_letters(rest.substr(first, rest.find_last_not_of(" \t") + 1 - first));
    if (name == "transfer-encoding") body.wrong |= chunked || value != "chunked", chunked = true;
    body.expects |= name == "expect";
    if (name != "content-length") continue;
    body.wrong |= (length && *length != value) || value.empty() || value.size() > 18 ||
        value.find_first_not_of("0123456789") != std::string::npos;
    length = value;
  }
  body.wrong |= length && chunked;
  if (chunked) body.bytes = -1;
  else if (length && !body.wrong) body.bytes = std::stoll(*length);
  return body;
}

// httplib leaves the bodies of other requests where they are: they are no next request.
bool body_is_read(std::string_view head) {
  for (const std::string_view method : {"POST ", "PUT ", "PATCH ", "DELETE "})
    if (head.starts_with(method)) return true;
  return false;
}

bool hung_up(int socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

// A socket as httplib reads and writes it. All of a request must have come by a moment; each piece of an answer may wait for so long.
class SocketStream final : public httplib::Stream {
 public:
  SocketStream(int socket, std::chrono::steady_clock::time_point receive_until, std::chrono::milliseconds send, std::int64_t most)
      : socket_(socket), receive_until_(receive_until), send_(send), left_(most) {}

  bool is_readable() const override { return wait(POLLIN, left()); }
  bool is_writable() const override { return wait(POLLOUT, send_) && !hung_up(socket_); }
  ssize_t read(char* to, size_t size) override {
    if (left_ == 0) return 0;
    // httplib reads heads byte by byte.
    if (at_ == filled_) {
      if (!is_readable()) return -1;
      const std::size_t most = left_ < 0 ? buffer_.size() : std::min(buffer_.size(), static_cast<std::size_t>(left_));
      const ssize_t got = ::recv(socket_, buffer_.data(), most, 0);
      if (got <= 0) return got;
      at_ = 0, filled_ = static_cast<std::size_t>(got);
    }
    std::size_t n = std::min(size, filled_ - at_);
    if (left_ > 0) n = std::min(n, static_cast<std::size_t>(left_)), left_ -= static_cast<std::int64_t>(n);
    std::memcpy(to, buffer_.data() + at_, n);
    at_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, size_t size) override {
    if (!wait(POLLOUT, send_)) return -1;
    return ::send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { name_of(getpeername, ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { name_of(getsockname, ip, port); }
  socket_t socket() const override { return socket_; }

  bool read_all() const { return left_ <= 0 && at_ == filled_; }  // all of a request, and nothing of a next one

 private:
  std::chrono::milliseconds left() const {
    return std::max(0ms, std::chrono::duration_cast<std::chrono::milliseconds>(receive_until_ - std::chrono::steady_clock::now()));
  }
  bool wait(short events, std::chrono::milliseconds time) const {
    pollfd one{socket_, events, 0};
    int n = 0;
    do n = ::poll(&one, 1, static_cast<int>(time.count()));
    while (n < 0 && errno == EINTR);
    return n > 0 && (one.revents & events) != 0;
  }
  template <class F>
  void name_of(F&& get, std::string& ip, int& port) const {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> service{};
    if (get(socket_, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
        getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host.data(), host.size(), service.data(), service.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
      return;
    ip = host.data();
    port = std::atoi(service.data());
  }

  int socket_;
  std::chrono::steady_clock::time_point receive_until_;
  std::chrono::milliseconds send_;
  std::int64_t left_;  // bytes of a request; -1: httplib knows where it ends
  std::array<char, 4096> buffer_{};
  std::size_t at_ = 0, filled_ = 0;
};

}  // namespace

HttpServer::HttpServer(const HttpLimits& limits) : limits_(limits) {
  set_payload_max_length(static_cast<std::size_t>(limits.body_bytes));
  // Who says so also does it: what is left of a request that was refused is no next one.
  set_logger(
      [](const httplib::Request&, const httplib::Response& answer) { ends_connection = answer.get_header_value("Connection") == "close"; });
  set_keep_alive_max_count(1000000);  // only said to clients: connections are kept here
  set_keep_alive_timeout(std::chrono::duration_cast<std::chrono::seconds>(limits.idle).count());
  // As httplib's own, but two servers do not share a port.
  set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
}

HttpServer::~HttpServer() {
  finish();
  if (epoll_ >= 0) ::close(epoll_);
  if (wake_ >= 0) ::close(wake_);
}

int HttpServer::bind(const std::string& host, int port) {
  allow_many_descriptors();
  const int wanted = port;
  if (port == 0) port = bind_to_any_port(host);
  else if (!bind_to_port(host, port)) port = -1;
  if (port <= 0) fail("serve", "cannot listen at {} port {}: is the address this machine's, and is the port free?", host, wanted);
  // httplib listens with room for five connections.
  if (::listen(svr_sock_, SOMAXCONN) != 0) fail("serve", "cannot listen at {}:{}: {}", host, port, std::strerror(errno));
  return port;
}

void HttpServer::start() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || wake_ < 0) fail("serve", "the system gives no descriptors: {}", std::strerror(errno));
  ::fcntl(svr_sock_, F_SETFL, ::fcntl(svr_sock_, F_GETFL) | O_NONBLOCK);
  for (const int socket : {static_cast<int>(svr_sock_), wake_}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = socket}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event);
  }
  // httplib makes its tables when the first request comes. One that it refuses, from nobody, comes before there are threads to share them.
  httplib::detail::BufferStream nobody;
  bool closed = false;
  static_cast<httplib::Stream&>(nobody).write("NONE / HTTP/1.1\r\n\r\n");
  process_request(nobody, true, closed, nullptr);
  watcher_ = std::thread([this] { watch(); });
}

void HttpServer::finish() {
  if (!watcher_.joinable()) return;
  finishing_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_, &one, sizeof(one)));
  watcher_.join();
  {
    const std::lock_guard lock(mutex_);
    no_more_work_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  for (const int socket : returned_) drop(socket);
  returned_.clear();
  ::close(svr_sock_.exchange(INVALID_SOCKET));
}

std::function<bool()> HttpServer::client_is_gone() {
  return [socket = answered_socket] { return socket >= 0 && hung_up(socket); };
}

// --- the watcher ----------------------------------------------------------------------------------------------------------

void HttpServer::watch() {
  std::array<epoll_event, 256> events{};
  auto looked = Clock::now();
  while (!finishing_) {
    const int n = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 250);
    take_back();
    for (int i = 0; i < n; ++i) {
      const int socket = events[static_cast<std::size_t>(i)].data.fd;
      if (socket == wake_) {
        std::uint64_t count = 0;
        static_cast<void>(!::read(wake_, &count, sizeof(count)));
      } else if (socket == svr_sock_) {
        accept_new();
      } else if (watched_.contains(socket)) {
        look_at(socket);
      }
    }
    if (Clock::now() - looked > 250ms) give_up_late_ones(), looked = Clock::now();
  }
  while (!watched_.empty()) drop(watched_.begin()->first);
}

// The connections whose requests were answered. Their workers have asked to be told of what comes on them.
void HttpServer::take_back() {
  std::vector<int> returned;
  {
    const std::lock_guard lock(mutex_);
    returned.swap(returned_);
  }
  for (const int socket : returned) watched_[socket] = {Clock::now() + limits_.idle, false};
}

bool HttpServer::listen_to(int socket) const {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data = {.fd = socket}};
  return epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event) == 0;
}

void HttpServer::accept_new() {
  for (int i = 0; i < 64; ++i) {
    const int socket = accept4(svr_sock_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(5ms);  // until others are closed
      return;
    }
    if (open_ >= limits_.connections) {
      ::close(socket);
      continue;
    }
    ++open_;
    const int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    watched_[socket] = {Clock::now() + limits_.idle, false};
    if (!listen_to(socket)) drop(socket);
  }
}

// Is all of a request there that a client need not be waited for? The head, and a body that is small. Who sends a large one slowly holds a
// worker for as long as a request may take to come.
HttpServer::Arrival HttpServer::arrived(int socket) const {
  static thread_local std::vector<char> peeked;
  peeked.resize(static_cast<std::size_t>(limits_.head_bytes));
  const ssize_t got = ::recv(socket, peeked.data(), peeked.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {Arrived::nothing};
  if (got <= 0) return {Arrived::end};
  const std::string_view head(peeked.data(), static_cast<std::size_t>(got));
  const std::size_t end = head.find("\r\n\r\n");
  if (end == std::string_view::npos) return {std::ssize(head) == limits_.head_bytes ? Arrived::too_much : Arrived::part};
  const Announced body = announced_body(head.substr(0, end + 2));
  if (body.wrong) return {Arrived::wrong};
  const std::int64_t whole = body.bytes < 0 ? -1 : static_cast<std::int64_t>(end) + 4 + body.bytes;
  if (!body.expects && whole > std::ssize(head) && whole <= limits_.head_bytes) return {Arrived::part};
  return {Arrived::request, {socket, whole, body.bytes != 0 && !body_is_read(head)}};
}

void HttpServer::look_at(int socket) {
  const Arrival arrival = arrived(socket);
  switch (arrival.what) {
    case Arrived::nothing: return;
    case Arrived::end: return drop(socket);
    case Arrived::request: return hand_to_worker(arrival.request);
    case Arrived::too_much: return refuse(socket, 431);
    case Arrived::wrong: return refuse(socket, 400);
    case Arrived::part: break;
  }
  Connection& c = watched_[socket];
  if (!c.begun) c = {Clock::now() + limits_.receive, true};
}

void HttpServer::give_up_late_ones() {
  std::vector<std::pair<int, bool>> late;
  for (const auto& [socket, c] : watched_)
    if (Clock::now() > c.until) late.emplace_back(socket, c.begun);
  for (const auto& [socket, begun] : late) begun ? refuse(socket, 408) : drop(socket);
}

void HttpServer::refuse(int socket, int status) {
  const std::string body = error_body != nullptr ? error_body(status) : "";
  const std::string answer = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", status,
      status == 431       ? "Request Header Fields Too Large"
          : status == 400 ? "Bad Request"
                          : "Request Timeout",
      body.size(), body);
  static_cast<void>(::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  // What was not read would reset the connection before the client has read the answer.
  ::shutdown(socket, SHUT_WR);
  std::array<char, 4096> rest{};
  for (int i = 0; i < 64 && ::recv(socket, rest.data(), rest.size(), MSG_DONTWAIT) > 0; ++i) {
  }
  drop(socket);
}

void HttpServer::drop(int socket) {
  watched_.erase(socket);
  ::close(socket);
  --open_;
}

void HttpServer::hand_to_worker(Request request) {
  const int socket = request.socket;
  watched_.erase(socket);
  epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, nullptr);
  const std::lock_guard lock(mutex_);
  ready_.push_back(request);
  try {
    if (idle_workers_ < std::ssize(ready_) && std::ssize(workers_) < limits_.workers) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // no more threads: those that are there do the work, if there is one
    if (workers_.empty()) ready_.pop_back(), ::close(socket), --open_;
  }
  changed_.notify_one();
}

// --- workers --------------------------------------------------------------------------------------------------------------

void HttpServer::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_workers_;
    changed_.wait(lock, [this] { return !ready_.empty() || no_more_work_; });
    --idle_workers_;
    if (ready_.empty()) return;
    const Request request = ready_.front();
    const int socket = request.socket;
    ready_.pop_front();
    lock.unlock();
    bool goes_on = answer(request);
    while (goes_on) {
      const std::optional<Request> another = another_of(socket);
      if (!another) break;
      goes_on = answer(*another);
    }
    lock.lock();
    // Returned first: the watcher takes it back before it looks at what has come on it.
    if (goes_on) returned_.push_back(socket);
    if (goes_on && !listen_to(socket)) std::erase(returned_, socket), goes_on = false;
    if (!goes_on) {
      ::shutdown(socket, SHUT_WR);
      ::close(socket);
      --open_;
    }
  }
}

// A client that asks again at once is answered by the same worker, unless others wait: nobody has to be woken for it.
std::optional<HttpServer::Request> HttpServer::another_of(int socket) {
  {
    const std::lock_guard lock(mutex_);
    if (!ready_.empty() || no_more_work_) return std::nullopt;
  }
  pollfd one{socket, POLLIN, 0};
  if (::poll(&one, 1, static_cast<int>(limits_.linger.count())) <= 0) return std::nullopt;
  const Arrival arrival = arrived(socket);
  return arrival.what == Arrived::request ? std::optional(arrival.request) : std::nullopt;
}

bool HttpServer::answer(Request request) {
  answered_socket = request.socket;
  SocketStream stream(request.socket, Clock::now() + limits_.receive, limits_.send, request.bytes);
  ends_connection = false;
  bool closed = false;
  bool fine = false;
  try {
    fine = process_request(stream, finishing_ || request.last, closed, nullptr);
  } catch (const std::exception&) {  // what httplib itself cannot answer
    fine = false;
  }
  answered_socket = -1;
  return fine && !closed && !ends_connection && !finishing_ && !request.last && stream.read_all();
}

}  // namespace transformer::serve
