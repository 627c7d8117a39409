#include "serve/wanted.h"

#include <algorithm>

#include "serve/api_error.h"
#include "serve/http.h"

namespace transformer::serve {

Wanted::Wanted(Clock::time_point until) : until_(until), gone_(HttpServer::client_is_gone()) {}

void Wanted::check() const {
  if (Clock::now() >= until_) throw ApiError(504, "the answer took too long", {}, "timeout");
  if (gone_()) throw ApiError(499, "the client has gone");
}

Wanted::Clock::time_point Wanted::next_check() const { return std::min(until_, Clock::now() + std::chrono::milliseconds(100)); }

}  // namespace transformer::serve
