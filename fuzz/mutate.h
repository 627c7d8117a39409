#pragma once
// Inputs made of seeds by small changes: bits, bytes, pieces of text, whole values of JSON and what looks like it. The same seeds
// and the same number give the same inputs.

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "targets.h"

namespace transformer::fuzz {

// [begin, end) of a text.
struct Span {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

// What is a value in JSON, and near enough in TOML and Jinja: words and numbers, quoted strings, what brackets enclose.
std::vector<Span> values_of(std::string_view text);

class Mutator {
 public:
  static constexpr std::size_t largest = std::size_t{1} << 18;  // bytes an input has at most

  Mutator(std::vector<std::string> seeds, Format format, std::uint64_t seed);

  std::string next();
  // What an input that was just tried came to (an error's message). Those that came to something new are seeds too.
  void learn(const std::string& input, std::string_view outcome);
  const std::vector<std::string>& seeds() const { return seeds_; }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  bool once_in(std::size_t n) { return below(n) == 0; }
  const std::string& any_seed() { return seeds_[below(seeds_.size())]; }
  Span any_range(const std::string& s);
  std::string any_text();

  void change_bytes(std::string& s);
  void change_text(std::string& s);
  void change(std::string& s);

  std::vector<std::string> seeds_;
  std::size_t given_ = 0;           // the first of them
  std::vector<std::string> words_;  // values of the seeds
  std::set<std::string> outcomes_;
  Format format_;
  std::mt19937_64 random_;
};

}  // namespace transformer::fuzz
