#pragma once
// Where and how a verb computes: the settings that become a Context.

#include "transformer/core/context.h"
#include "transformer/io/config.h"

namespace transformer::cli {

enum class Precision : std::uint8_t { float32, bfloat16 };
inline EnumNames<Precision> names(Precision) { return {{Precision::float32, "float32"}, {Precision::bfloat16, "bfloat16"}}; }

// A flag of all verbs that open a model.
inline constexpr std::string_view adapter_help =
    "an adapter's folder (LoRA, as PEFT or 'transformer train --lora-rank' saves it); MODEL is its base";

inline constexpr std::string_view device_help =
    "where to compute: cpu, cuda, cuda:1 or auto (a GPU if there is one); empty: what TRANSFORMER_DEVICE says, or the CPU";

struct ComputeConfig {
  std::string device = {};
  int threads = 0;
  Precision precision = Precision::float32;

  static void visit(auto& self, auto&& field) {
    field("device", self.device, device_help);
    field("threads", self.threads, "threads to compute with (0: all that the machine offers)");
    field("precision", self.precision, "what is computed with; weights stay float32");
  }

  // No more threads than the machine has; a note says so.
  ContextOptions context(std::uint64_t seed = 0) const;
};

}  // namespace transformer::cli
