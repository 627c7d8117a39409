#pragma once
// The endpoints: from requests to answers. Each function takes a request's body and gives the answer's JSON, or throws ApiError.

#include "serve/counters.h"
#include "serve/http.h"
#include "serve/requests.h"
#include "serve/training.h"
#include "transformer/serve/server.h"

namespace transformer::serve {

struct RunningAnswer;  // completions.cpp

class Api {
 public:
  // training: null where none is watched.
  Api(const ServerOptions& options, const std::vector<std::unique_ptr<HostedModel>>& models, WatchedTraining* training);

  void add_routes(HttpServer& http);

 private:
  using Handler = std::function<void(const httplib::Request&, httplib::Response&)>;
  using Clock = std::chrono::steady_clock;

  void answer(const httplib::Request& request, httplib::Response& response);
  void check_key(const httplib::Request& request) const;
  ApiError for_clients(const ApiError& e) const;  // without the folders of models: they are called by their names
  Wanted wanted() const;                          // whether a request that comes now is wanted, until it is given up
  // Work of the model's that is no search.
  void compute(HostedModel& model, const Wanted& wanted, const std::function<void(Context&)>& work);

  // By name. ApiError 404 when there is none, 400 when it is not for this.
  HostedModel& model(const std::string& name) const;
  HostedModel& model_for(const std::optional<std::string>& name, const std::string& what, bool (*fits)(const HostedModel&)) const;

  // completions.cpp
  void completions(const httplib::Request& request, httplib::Response& response);
  void chat(const httplib::Request& request, httplib::Response& response);
  GenerationConfig settings(const HostedModel& model, const SamplingFields& request, std::int64_t max_tokens,
                            GenerateOptions& options) const;
  void finish_answer(HostedModel& model, const std::shared_ptr<RunningAnswer>& running, std::vector<std::vector<std::int32_t>> prompts,
                     const GenerationConfig& config, GenerateOptions options, std::int64_t max_tokens, bool stream, bool usage,
                     httplib::Response& response);
  void read_prompts(HostedModel& model, RunningAnswer& running, std::size_t alternatives);
  std::int64_t room(const HostedModel& model, std::int64_t prompt_tokens, std::optional<std::int64_t> wanted, std::int64_t usual,
                    const std::string& field) const;

  // tasks.cpp
  nlohmann::json models_list() const;
  static nlohmann::json model_json(const HostedModel& model);
  nlohmann::json embeddings(const EmbeddingRequest& request);
  nlohmann::json translate(const TranslateRequest& request);
  nlohmann::json languages() const;
  nlohmann::json classify(const ClassifyRequest& request);
  nlohmann::json forecast(const ForecastRequest& request);
  nlohmann::json tokenize(const TokenizeRequest& request) const;
  nlohmann::json detokenize(const DetokenizeRequest& request) const;
  nlohmann::json explain(const std::string& body);
  nlohmann::json health() const;
  nlohmann::json training_metrics(const httplib::Request& request) const;
  WatchedTraining& watched() const;  // ApiError 404 when there is none

  const ServerOptions& options_;
  const std::vector<std::unique_ptr<HostedModel>>& models_;
  WatchedTraining* training_;
  Counters counters_;
  HttpServer* http_ = nullptr;
  std::map<std::pair<std::string, std::string>, Handler> routes_;  // by method and path
};

// The description of all of this: OpenAPI 3.1.
nlohmann::json openapi();

}  // namespace transformer::serve
