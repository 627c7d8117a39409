#include "serve/api.h"

#include <strings.h>

#include <algorithm>
#include <cstring>

#include "models/shared/purpose.h"
#include "serve/assets.h"
#include "transformer/core/error.h"

namespace transformer::serve {
namespace {

using nlohmann::json;

constexpr std::string_view models_path = "/v1/models/";
const std::string one_model = std::string(models_path) + "{model}";

// Of a path that has a name in it, how it is called here.
std::string path_of(const httplib::Request& request) {
  return request.path.starts_with(models_path) && request.path.size() > models_path.size() ? one_model : request.path;
}

std::string type_of(const httplib::Request& request) {
  const std::string type = request.get_header_value("Content-Type");
  return type.substr(std::min(type.find_first_not_of(' '), type.size()));
}

std::optional<Form> sent_form(const httplib::Request& request) { return form_of(type_of(request), request.body); }

// httplib would read forms, short ones alone, and leave nothing of them: what it does not know as one comes as other bodies do.
void hide_form(const httplib::Request& request) {
  auto& headers = const_cast<httplib::Request&>(request).headers;
  if (const auto type = headers.find("Content-Type"); type != headers.end()) type->second.insert(0, " ");
}

// Takes as long wherever they differ.
bool equal_in_constant_time(std::string_view given, std::string_view wanted) {
  unsigned difference = given.size() == wanted.size() ? 0U : 1U;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    difference |= static_cast<unsigned char>(wanted[i]) ^ static_cast<unsigned char>(i < given.size() ? given[i] : '\0');
  return difference == 0U;
}

std::string body_of(int status) {
  const std::string message = status == 431 ? "the head of the request is too large"
      : status == 400                       ? "the head of the request does not say where its body ends"
                                            : "the request did not come in time";
  return dump(error_json(ApiError(status, message)));
}

// What httplib refuses by itself.
std::string message_of_status(const httplib::Request& request, int status) {
  switch (status) {
    case 400: return "the request cannot be read";
    case 404: return fmt::format("there is nothing at {} {}", request.method, request.path);
    case 413: return "the body of the request is too large";
    case 414: return "the address is too long";
    default: return fmt::format("the request cannot be answered ({})", status);
  }
}

void send_error(const ApiError& e, httplib::Response& response) {
  response.status = e.status;
  if (e.retry_after > 0) response.set_header("Retry-After", std::to_string(e.retry_after));
  if (e.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  response.set_content(dump(error_json(e)), "application/json");
}

// A request whose body was not read, or not to its end.
void refuse(const ApiError& e, httplib::Response& response) {
  send_error(e, response);
  response.set_header("Connection", "close");
}

}  // namespace

Api::Api(const ServerOptions& options, const std::vector<std::unique_ptr<HostedModel>>& models, WatchedTraining* training)
    : options_(options), models_(models), training_(training) {
  const auto gives = [](auto function) -> Handler {
    return [function](const httplib::Request& request, httplib::Response& response) {
      response.set_content(dump(function(request)), "application/json");
    };
  };
  routes_[{"POST", "/v1/completions"}] = [this](const auto& request, auto& response) { completions(request, response); };
  routes_[{"POST", "/v1/chat/completions"}] = [this](const auto& request, auto& response) { chat(request, response); };
  routes_[{"GET", "/v1/models"}] = gives([this](const auto&) { return models_list(); });
  routes_[{"GET", one_model}] = gives([this](const auto& r) { return model_json(model(r.path.substr(models_path.size()))); });
  routes_[{"POST", "/v1/embeddings"}] = gives([this](const auto& r) { return embeddings(read_body<EmbeddingRequest>(r.body)); });
  routes_[{"POST", "/translate"}] = gives([this](const auto& r) {
    const auto form = sent_form(r);
    return translate(form ? read_form<TranslateRequest>(*form) : read_body<TranslateRequest>(r.body));
  });
  routes_[{"POST", "/detect"}] = [](const auto&, auto&) {
    throw ApiError(404, "languages are not detected here: name the language of a text in 'source' of /translate", {}, "not_found");
  };
  routes_[{"GET", "/languages"}] = gives([this](const auto&) { return languages(); });
  routes_[{"POST", "/classify"}] = gives([this](const auto& r) { return classify(read_body<ClassifyRequest>(r.body)); });
  routes_[{"POST", "/forecast"}] = gives([this](const auto& r) { return forecast(read_body<ForecastRequest>(r.body)); });
  routes_[{"POST", "/tokenize"}] = gives([this](const auto& r) { return tokenize(read_body<TokenizeRequest>(r.body)); });
  routes_[{"POST", "/detokenize"}] = gives([this](const auto& r) { return detokenize(read_body<DetokenizeRequest>(r.body)); });
  routes_[{"POST", "/explain"}] = gives([this](const auto& r) { return explain(r.body); });
  routes_[{"GET", "/health"}] = gives([this](const auto&) { return health(); });
  routes_[{"GET", "/openapi.json"}] = gives([](const auto&) { return openapi(); });
  routes_[{"GET", "/training/metrics"}] = gives([this](const auto& r) { return training_metrics(r); });
  routes_[{"POST", "/training/sample"}] = gives(
      [this](const auto& r) { return watched().sample(read_body<SampleRequest>(r.body), wanted()); });
  routes_[{"GET", "/metrics"}] = [this](const auto&, auto& response) {
    response.set_content(counters_.text(models_, http_->open_connections()), "text/plain; version=0.0.4");
  };
}

void Api::add_routes(HttpServer& http) {
  http_ = &http;
  http.error_body = body_of;
  if (!options_.cors_origin.empty())  // in all answers: what is wrong may be read, too. * alone does not mean Authorization
    http.set_default_headers({{"Access-Control-Allow-Origin", options_.cors_origin},
                              {"Access-Control-Allow-Headers", "Authorization, *"},
                              {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"}});
  const auto all = [this](const httplib::Request& request, httplib::Response& response) { answer(request, response); };
  http.Get(".*", all).Post(".*", all).Put(".*", all).Patch(".*", all).Delete(".*", all).Options(".*", all);
  http.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    const auto coded = request.has_header("Content-Encoding") && request.get_header_value("Content-Encoding") != "identity";
    const bool forms = request.path == "/translate" || request.path == "/detect";
    if (!coded && (forms || !is_form_in_parts(type_of(request)))) {
      hide_form(request);
      return httplib::Server::HandlerResponse::Unhandled;
    }
    refuse(ApiError(415, "bodies are plain JSON: no Content-Encoding, and no multipart form but of /translate"), response);
    return httplib::Server::HandlerResponse::Handled;
  });
  http.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (response.body.empty()) refuse(ApiError(response.status, message_of_status(request, response.status)), response);
  });
  http.set_exception_handler([](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
    send_error(ApiError(500, "something went wrong"), response);
  });
}

void Api::answer(const httplib::Request& request, httplib::Response& response) {
  const_cast<httplib::Request&>(request).ranges.clear();  // all is sent, whatever part of it is asked for: httplib would send less
  const auto begun = Clock::now();
  std::string endpoint = "other";
  try {
    if (request.method == "OPTIONS" && !options_.cors_origin.empty()) {
      response.status = 204;
      return;
    }
    const bool reads = request.method == "GET" || request.method == "HEAD";
    if (const Asset* asset = find_asset(request.path); asset != nullptr && reads) {
      response.set_content(asset->bytes.data(), asset->bytes.size(), std::string(asset->type));
      return counters_.request("page", 200, Clock::now() - begun);
    }
    const std::string path = path_of(request);
    const auto found = routes_.find({reads ? "GET" : request.method, path});
    if (found == routes_.end()) {
      for (const auto& [key, handler] : routes_) {
        if (key.second != path) continue;
        response.set_header("Allow", key.first);
        throw ApiError(405, fmt::format("{} takes {}, not {}", request.path, key.first, request.method));
      }
      throw ApiError(404, fmt::format("there is nothing at {}", request.path), {}, "not_found");
    }
    endpoint = found->first.second;
    check_key(request);
    response.status = 200;
    found->second(request, response);
  } catch (const ApiError& e) {
    send_error(for_clients(e), response);
  } catch (const TooLongError& e) {
    send_error(for_clients(ApiError(400, e.what(), {}, "context_length_exceeded")), response);
  } catch (const Error& e) {
    send_error(for_clients(ApiError(400, e.what(), {}, "invalid_value")), response);
  } catch (const std::future_error&) {
    send_error(ApiError(503, "the server is shutting down"), response);
  } catch (const std::exception& e) {
    send_error(for_clients(ApiError(500, e.what())), response);
  }
  const auto count = [this, endpoint, status = response.status, begun] { counters_.request(endpoint, status, Clock::now() - begun); };
  if (auto& ended = response.content_provider_resource_releaser_) {  // a stream
    ended = [ended, count](bool success) { ended(success), count(); };
  } else {
    count();
  }
}

ApiError Api::for_clients(const ApiError& e) const {
  std::string message = e.what();
  const auto call = [&](std::string folder, const std::string& name) {
    while (folder.ends_with('/')) folder.pop_back();    // its files' names go on with one
    if (folder.find('/') == std::string::npos) return;  // a word, which may mean something else
    for (std::size_t at = 0; (at = message.find(folder, at)) != std::string::npos; at += name.size())
      message.replace(at, folder.size(), name);
  };
  for (const auto& m : models_) call(m->folder().string(), m->name());
  if (training_ != nullptr) call(training_->folder().string(), "training");
  ApiError same(e.status, message, e.param, e.code);
  same.retry_after = e.retry_after;
  return same;
}

// What shows nothing of the models is for everybody: health and the description, and the page.
void Api::check_key(const httplib::Request& request) const {
  if (options_.api_key.empty() || request.path == "/health" || request.path == "/openapi.json") return;
  const std::string header = request.get_header_value("Authorization");
  constexpr std::string_view scheme = "bearer ";
  std::string given;
  if (header.size() > scheme.size() && strncasecmp(header.c_str(), scheme.data(), scheme.size()) == 0) given = header.substr(scheme.size());
  if (given.empty() && (request.path == "/translate" || request.path == "/detect")) {  // LibreTranslate's clients send it in the body
    const auto form = sent_form(request);
    const json body = form ? json() : json::parse(request.body, nullptr, false);
    for (const auto& [name, text] : form.value_or(Form()))
      if (name == "api_key") given = text;
    if (body.is_object() && body.contains("api_key") && body["api_key"].is_string()) given = body["api_key"].get<std::string>();
  }
  if (!equal_in_constant_time(given, options_.api_key))
    throw ApiError(401, "this server wants a key: send the header 'Authorization: Bearer KEY'", {}, "invalid_api_key");
}

Wanted Api::wanted() const {
  return Wanted(Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(std::min(options_.max_seconds, 1e9) * 1000.0)));
}

void Api::compute(HostedModel& model, const Wanted& wanted, const std::function<void(Context&)>& work) {
  try {
    model.engine().run(work, wanted);
  } catch (const ApiError& e) {
    if (e.status == 499 || e.status == 504) counters_.cancelled(model.name());
    throw;
  }
}

HostedModel& Api::model(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& m : models_) {
    if (m->name() == name) return *m;
    known.push_back(m->name());
  }
  throw ApiError(404, fmt::format("there is no model '{}'{}", name, did_you_mean(name, known)), "model", "model_not_found");
}

HostedModel& Api::model_for(const std::optional<std::string>& name, const std::string& what, bool (*fits)(const HostedModel&)) const {
  if (name) {
    HostedModel& found = model(*name);
    if (!fits(found))
      throw ApiError(400, fmt::format("the model '{}' does not {}; {}", *name, what, describe(found.purpose())), "model", "wrong_model");
    return found;
  }
  for (const auto& m : models_)
    if (fits(*m)) return *m;
  throw ApiError(400, fmt::format("no model here can {}", what), "model", "wrong_model");
}

}  // namespace transformer::serve
