#pragma once
// What reads files from anywhere, one function each, in the form that libFuzzer calls. An input may be understood or refused with an
// Error; anything else that happens is a finding.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace transformer::fuzz {

enum class Format : std::uint8_t { text, binary, safetensors };

struct Target {
  std::string_view name;
  int (*run)(const std::uint8_t* data, std::size_t size);  // 0
  std::vector<std::string> (*seeds)();                     // inputs to begin with: files of tests/golden and such as they do not have
  Format format = Format::text;
  std::size_t memory = std::size_t{16} << 20;  // bytes that any input may take at one time, and
  std::size_t memory_per_byte = 100;           // that many more for each of its bytes
};

const std::vector<Target>& targets();
const Target* find_target(std::string_view name);

// What the last input came to: empty, or the Error's message.
const std::string& outcome();

int fuzz_safetensors(const std::uint8_t* data, std::size_t size);  // a whole file
int fuzz_index(const std::uint8_t* data, std::size_t size);        // model.safetensors.index.json beside two files
int fuzz_config(const std::uint8_t* data, std::size_t size);       // config.json of any family
int fuzz_adapter(const std::uint8_t* data, std::size_t size);      // adapter_config.json beside the weights of an adapter
int fuzz_generation(const std::uint8_t* data, std::size_t size);   // generation_config.json
int fuzz_toml(const std::uint8_t* data, std::size_t size);         // a configuration file
int fuzz_tokenizer(const std::uint8_t* data, std::size_t size);    // tokenizer.json
int fuzz_vocabulary(const std::uint8_t* data, std::size_t size);   // the older files of tokenizers, one behind the other
int fuzz_chat(const std::uint8_t* data, std::size_t size);         // a chat template
int fuzz_processor(const std::uint8_t* data, std::size_t size);    // preprocessor_config.json
int fuzz_request(const std::uint8_t* data, std::size_t size);      // the body of a request to the server
int fuzz_image(const std::uint8_t* data, std::size_t size);        // PNG, JPEG, WebP, BMP, GIF
int fuzz_labelled(const std::uint8_t* data, std::size_t size);     // texts and their classes, as TSV and JSON lines
int fuzz_table(const std::uint8_t* data, std::size_t size);        // a series as CSV
int fuzz_tokens(const std::uint8_t* data, std::size_t size);       // a file of tokens
int fuzz_idx(const std::uint8_t* data, std::size_t size);          // images of an IDX file, plain or gzip

}  // namespace transformer::fuzz
