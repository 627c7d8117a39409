#pragma once
// From tokens back to text: the decoders of tokenizer.json, as steps that tokens pass through while they come. Decoding all at
// once and decoding a stream are the same thing.

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace transformer {

// Receives the text of a token in any number of parts, then its end; after the last token, finish.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual void text(std::string_view part) = 0;
  virtual void end() = 0;
  virtual void finish() = 0;
};
using DecodeStepPtr = std::unique_ptr<DecodeStep>;

// A decoder: makes the steps before `next`, which receives what they give.
using Decoder = std::function<DecodeStepPtr(DecodeStepPtr next)>;

// Of a part of tokenizer.json; for null, tokens with spaces between them. Error for what is not supported.
Decoder read_decoder(const nlohmann::json& part, int depth = 0);

// The last step: all text behind one another.
class DecodedText final : public DecodeStep {
 public:
  explicit DecodedText(std::string& out) : out_(out) {}
  void text(std::string_view part) override { out_ += part; }
  void end() override {}
  void finish() override {}

 private:
  std::string& out_;
};

}  // namespace transformer
