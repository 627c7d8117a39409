// The description of the API. Bodies are described by the structs that read them (requests.h), so that it says what is checked.
#include "serve/api.h"

namespace transformer::serve {
namespace {

using nlohmann::json;

json reference(const std::string& name) { return {{"$ref", "#/components/schemas/" + name}}; }
json content(const json& schema, const std::string& type = "application/json") { return {{type, {{"schema", schema}}}}; }
json object_of(const json& properties, const std::vector<std::string>& required) {
  return {{"type", "object"}, {"properties", properties}, {"required", required}};
}
json text() { return {{"type", "string"}}; }
json integer() { return {{"type", "integer"}}; }
json number() { return {{"type", "number"}}; }
json list_of(const json& items) { return {{"type", "array"}, {"items", items}}; }
json either(const std::vector<json>& schemas) { return {{"anyOf", schemas}}; }

json answers(const json& ok, const std::vector<int>& errors) {
  json all{{"200", {{"description", "the answer"}, {"content", ok}}}};
  static const std::map<int, std::string> why = {{400, "the request is wrong; the error says what is"},
                                                 {401, "the key is missing or wrong"},
                                                 {404, "there is no such model, or not what is asked for"},
                                                 {405, "another method is wanted"},
                                                 {408, "the request did not come in time"},
                                                 {413, "the body is too large"},
                                                 {414, "the address is too long"},
                                                 {415, "the body is compressed, or a form where none is read"},
                                                 {429, "too many requests wait; Retry-After says for how long to"},
                                                 {431, "the headers are too large"},
                                                 {500, "the model could not go on"},
                                                 {503, "the server is shutting down"},
                                                 {504, "the answer took too long"}};
  for (const int status : errors) all[std::to_string(status)] = {{"description", why.at(status)}, {"content", content(reference("Error"))}};
  return all;
}

const std::vector<int> of_get = {400, 401, 405, 408, 414, 431, 503};
const std::vector<int> of_post = {400, 401, 404, 405, 408, 413, 414, 415, 429, 431, 500, 503, 504};

json get(const std::string& summary, const json& ok) { return {{"get", {{"summary", summary}, {"responses", answers(ok, of_get)}}}}; }
json post(const std::string& summary, const std::string& body, const json& ok) {
  return {{"post",
           {{"summary", summary},
            {"requestBody", {{"required", true}, {"content", content(reference(body))}}},
            {"responses", answers(ok, of_post)}}}};
}

json usage() {
  return object_of({{"prompt_tokens", integer()}, {"completion_tokens", integer()}, {"total_tokens", integer()}},
                   {"prompt_tokens", "total_tokens"});
}

// A whole answer or, with stream, events whose data are chunks of it.
json completion(bool chat) {
  json choice{{"index", integer()},
              {"finish_reason", {{"type", "string"}, {"enum", {"stop", "length"}}}},
              {"logprobs", either({{{"type", "object"}}, {{"type", "null"}}})}};
  if (chat) choice["message"] = object_of({{"role", text()}, {"content", text()}}, {"role", "content"});
  else choice["text"] = text();
  json ok = content(object_of({{"id", text()},
                               {"object", text()},
                               {"created", integer()},
                               {"model", text()},
                               {"usage", usage()},
                               {"choices", list_of(object_of(choice, {"index", "finish_reason", chat ? "message" : "text"}))}},
                              {"id", "object", "created", "model", "choices", "usage"}));
  ok["text/event-stream"] = {{"schema", object_of({{"event", text()}, {"data", text()}}, {"data"})}};  // of each event
  return ok;
}

}  // namespace

json openapi() {
  json schemas{
      {"Error",
       object_of({{"error",
                   object_of({{"message", text()},
                              {"type", text()},
                              {"param", either({text(), {{"type", "null"}}})},
                              {"code", either({text(), {{"type", "null"}}})}},
                             {"message", "type", "param", "code"})}},
                 {"error"})},
      {"CompletionRequest", schema_of<CompletionRequest>()},
      {"ChatRequest", schema_of<ChatRequest>()},
      {"EmbeddingRequest", schema_of<EmbeddingRequest>()},
      {"TranslateRequest", schema_of<TranslateRequest>()},
      {"ClassifyRequest", schema_of<ClassifyRequest>()},
      {"ForecastRequest", schema_of<ForecastRequest>()},
      {"TokenizeRequest", schema_of<TokenizeRequest>()},
      {"DetokenizeRequest", schema_of<DetokenizeRequest>()},
      {"SampleRequest", schema_of<SampleRequest>()},
      {"ExplainRequest",
       {{"type", "object"}, {"properties", {{"model", text()}}}, {"description", "model, and what it looks at: see docs/explain.md"}}}};
  json paths;
  const json any_object = {{"type", "object"}};
  const json model = object_of({{"id", text()},
                                {"object", text()},
                                {"created", integer()},
                                {"owned_by", text()},
                                {"purpose", text()},
                                {"context", integer()},
                                {"channels", integer()}},
                               {"id", "object", "created", "owned_by", "purpose"});
  paths["/v1/models"] = get("the models", content(object_of({{"object", text()}, {"data", list_of(model)}}, {"object", "data"})));
  json one = get("one of them", content(model));
  one["get"]["parameters"] = {{{"name", "model"}, {"in", "path"}, {"required", true}, {"schema", text()}}};
  one["get"]["responses"]["404"] = {{"description", "there is no such model"}, {"content", content(reference("Error"))}};
  paths["/v1/models/{model}"] = one;
  paths["/v1/completions"] = post("text that goes on from a prompt", "CompletionRequest", completion(false));
  paths["/v1/chat/completions"] = post("the answer in a conversation", "ChatRequest", completion(true));
  paths["/v1/embeddings"] = post(
      "vectors of texts", "EmbeddingRequest",
      content(object_of({{"object", text()},
                         {"model", text()},
                         {"usage", usage()},
                         {"data",
                          list_of(object_of({{"object", text()}, {"index", integer()}, {"embedding", either({text(), list_of(number())})}},
                                            {"object", "index", "embedding"}))}},
                        {"object", "data", "model", "usage"})));
  paths["/translate"] = post(
      "translations", "TranslateRequest",
      content(
          object_of({{"translatedText", either({text(), list_of(text())})}, {"alternatives", {{"type", "array"}}}}, {"translatedText"})));
  for (const char* type : {"application/x-www-form-urlencoded", "multipart/form-data"})
    paths["/translate"]["post"]["requestBody"]["content"][type]["schema"] = object_of(
        {{"q", text()}, {"source", text()}, {"target", text()}}, {"q"});
  paths["/detect"]["post"] = {{"summary", "LibreTranslate's; not there: it says so"}, {"responses", answers(json::object(), of_post)}};
  paths["/detect"]["post"]["responses"].erase("200");
  paths["/languages"] = get(
      "what is translated into what",
      content(list_of(object_of({{"code", text()}, {"name", text()}, {"targets", list_of(text())}}, {"code", "name", "targets"}))));
  paths["/classify"] = post("labels of texts or of a picture", "ClassifyRequest",
                            content(object_of({{"model", text()}, {"results", list_of(any_object)}}, {"model", "results"})));
  paths["/forecast"] = post(
      "the next values of a series", "ForecastRequest",
      content(object_of({{"model", text()}, {"forecast", any_object}, {"dates", list_of(text())}}, {"model", "forecast"})));
  paths["/tokenize"] = post("a text as tokens", "TokenizeRequest",
                            content(object_of({{"model", text()},
                                               {"tokens", list_of(integer())},
                                               {"pieces", list_of(text())},
                                               {"places", list_of(list_of(integer()))},
                                               {"count", integer()}},
                                              {"model", "tokens", "pieces", "places", "count"})));
  paths["/detokenize"] = post("tokens as a text", "DetokenizeRequest",
                              content(object_of({{"model", text()}, {"text", text()}}, {"model", "text"})));
  paths["/explain"] = post("what goes on inside a model", "ExplainRequest", content(any_object));
  paths["/health"] = get("is the server there?",
                         content(object_of({{"status", text()}, {"models", list_of(text())}}, {"status", "models"})));
  paths["/metrics"] = get("counters for Prometheus", content(text(), "text/plain"));
  paths["/openapi.json"] = get("this description", content(any_object));
  json watched = get("the numbers of a training",
                     content(object_of({{"folder", text()},
                                        {"records", list_of(any_object)},
                                        {"rows", integer()},
                                        {"next", integer()},
                                        {"restarted", {{"type", "boolean"}}},
                                        {"checkpoint", either({integer(), {{"type", "null"}}})}},
                                       {"records", "next", "checkpoint"})));
  watched["get"]["parameters"] = {{{"name", "from"},
                                   {"in", "query"},
                                   {"required", false},
                                   {"description", "'next' of the answer before: only what came since"},
                                   {"schema", {{"type", "integer"}, {"minimum", 0}}}},
                                  {{"name", "points"},
                                   {"in", "query"},
                                   {"required", false},
                                   {"description", "so many of each curve, about: rows have the numbers alone that keep its shape"},
                                   {"schema", {{"type", "integer"}, {"minimum", 1}}}}};
  watched["get"]["responses"]["404"] = {{"description", "no training is watched"}, {"content", content(reference("Error"))}};
  paths["/training/metrics"] = watched;
  paths["/training/sample"] = post("what the newest checkpoint of a training says", "SampleRequest",
                                   content(object_of({{"step", integer()}, {"text", text()}, {"said", text()}}, {"step", "text", "said"})));
  paths["/training/sample"]["post"]["responses"]["404"] = watched["get"]["responses"]["404"];
  return {{"openapi", "3.1.0"},
          {"info", {{"title", "transformer"}, {"version", TRANSFORMER_VERSION}, {"description", "Models over HTTP: see docs/serve.md"}}},
          {"paths", paths},
          {"components", {{"schemas", schemas}, {"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
}

}  // namespace transformer::serve
