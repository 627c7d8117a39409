#pragma once
// Whether somebody still waits for the answer to a request.

#include <chrono>
#include <functional>

namespace transformer::serve {

class Wanted {
 public:
  using Clock = std::chrono::steady_clock;
  Wanted() = default;                        // for ever
  explicit Wanted(Clock::time_point until);  // what the calling thread answers: until then, or until its client goes

  // ApiError 499 when the client has gone, 504 when it is too late. Any thread may ask while the request is answered.
  void check() const;
  Clock::time_point next_check() const;  // for who waits

 private:
  Clock::time_point until_ = Clock::time_point::max();
  std::function<bool()> gone_ = [] { return false; };
};

}  // namespace transformer::serve
