#pragma once
// Answers that are JSON of a given form, whatever the model: tokens that cannot go on are not generated.
//
//   GenerateOptions options;
//   options.processors.push_back(json_constraint(R"({"type": "object", "properties": {"age": {"type": "integer"}}})"_json, tokenizer,
//   eos));
//
// Of JSON Schema there is: type (also a list of types), enum, const, properties, required, additionalProperties, items, minItems, maxItems,
// minLength, maxLength, anyOf and $ref to the schema's own $defs; title, description, default, examples, $schema and $id are passed over.
// Any other keyword is an Error that names it. What is generated is part of what the schema allows: the properties of an object come in
// the schema's order, numbers have at most 20 digits, white space is short, values that may be anything are at most 16 deep.

#include <nlohmann/json.hpp>

#include "transformer/generate/logits.h"
#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

// eos: the tokens that end an answer; they come when the JSON is complete, and then nothing else does.
LogitsProcessor json_constraint(const nlohmann::ordered_json& schema, const TokenizerPtr& tokenizer, std::vector<std::int32_t> eos);

}  // namespace transformer
