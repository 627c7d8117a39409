#pragma once
// What a client is told when a request cannot be answered: OpenAI's error object.

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace transformer::serve {

struct ApiError : std::runtime_error {
  ApiError(int http_status, const std::string& message, std::string wrong_param = {}, std::string error_code = {})
      : std::runtime_error(message), status(http_status), param(std::move(wrong_param)), code(std::move(error_code)) {}

  int status;
  std::string param, code;  // empty: null
  int retry_after = 0;      // seconds; 0: not said
};

// The type that OpenAI gives an error of this status.
inline std::string error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

inline nlohmann::json error_json(const ApiError& e) {
  const auto or_null = [](const std::string& text) { return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text); };
  return {{"error", {{"message", e.what()}, {"type", error_type(e.status)}, {"param", or_null(e.param)}, {"code", or_null(e.code)}}}};
}

// JSON that is sent: bytes of text that are no UTF-8 become U+FFFD.
inline std::string dump(const nlohmann::json& json) { return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

}  // namespace transformer::serve
