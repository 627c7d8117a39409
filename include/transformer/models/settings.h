#pragma once
// A family reads its config.json through this, so that everything the file says is honoured or refused by name:
//
//   StackConfig stack{.d_model = s.size("n_embd", 768), .layers = s.layers("n_layer", 12)};
//   s.only("reorder_and_upcast_attn", false, "only half precision training needs it");
//   s.neutral({"summary_type"});             // does not change the numbers
//   …
//   s.done();                                // refuses whatever was not asked for; make_model calls it
//
// The defaults are those of Hugging Face's configuration class: its files leave out what has its default value. What every
// configuration may have (architectures, id2label, torch_dtype, settings of generation …) is known here.

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/core/types.h"
#include "transformer/io/config.h"

namespace transformer {

class Settings {
 public:
  explicit Settings(const nlohmann::json& config);  // must be an object, and outlive this

  const nlohmann::json& json() const { return config_; }
  const std::string& model_type() const { return model_type_; }

  // The value of a key, or the default where it is not given. A null is refused: where it means something, use `maybe`.
  template <class T>
  T get(std::string_view key, const T& fallback) {
    const nlohmann::json* given = find(key);
    return given == nullptr ? fallback : read<T>(key, *given);
  }
  std::string get(std::string_view key, const char* fallback) { return get<std::string>(key, fallback); }
  template <class T>
  T require(std::string_view key) {
    const nlohmann::json* given = find(key);
    if (given == nullptr) missing(key);
    return read<T>(key, *given);
  }
  // Nothing for null; for a key that is not given, the default.
  template <class T>
  std::optional<T> maybe(std::string_view key, const std::optional<T>& fallback = {}) {
    const nlohmann::json* given = find(key);
    if (given == nullptr) return fallback;
    return given->is_null() ? std::nullopt : std::optional<T>(read<T>(key, *given));
  }
  // The value as it is, null pointer where it is not given. Also for what has parts of its own (rope_parameters).
  const nlohmann::json* find(std::string_view key);

  // A size: 1 or more, and small enough that products of two are no trouble.
  std::int64_t size(std::string_view key, std::int64_t fallback);
  std::optional<std::int64_t> maybe_size(std::string_view key);
  std::int64_t layers(std::string_view key, std::int64_t fallback);  // 0 … 2,000
  // The activation of that name: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish …; others are refused by name.
  Activation activation(std::string_view key, std::string_view fallback);
  Activation activation_named(std::string_view key, std::string_view name) const;  // the same where the name was read already

  // Of `architectures`: one of those the family knows, the first where config.json says nothing.
  std::string architecture(const std::vector<std::string>& known);
  // The number of classes: of id2label, or num_labels; 2 where neither is given.
  std::int64_t labels();

  // Honoured with this value only (or when not given): otherwise refused by name, with the reason.
  void only(std::string_view key, const nlohmann::json& value, std::string_view why);
  // Keys that do not change the numbers.
  void neutral(std::initializer_list<std::string_view> keys);
  // Another spelling of a key: hidden_size for n_embd. Both may be given with the same value.
  void alias(std::string_view other, std::string_view key);
  // Refuses a value that was read, by name.
  [[noreturn]] void refuse(std::string_view key, std::string_view why) const;
  void done() const;  // Error for every key that was not read, with the nearest one that is known

 private:
  template <class T>
  static T read(std::string_view key, const nlohmann::json& given) {
    T value{};
    detail::read_value(given, value, std::string(key));
    if constexpr (std::is_same_v<T, std::int64_t>) check_small(key, value);
    return value;
  }
  [[noreturn]] static void missing(std::string_view key);
  static void check_small(std::string_view key, std::int64_t value);  // of 32 bits: what is computed of it then fits in 64

  nlohmann::json config_;  // aliases resolved
  std::string model_type_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace transformer
