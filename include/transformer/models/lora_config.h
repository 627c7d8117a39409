#pragma once
// The settings of an adapter (models/lora.h).

#include <cstdint>
#include <string>
#include <vector>

namespace transformer {

struct LoraConfig {
  std::int64_t rank = 0;  // 0: no adapter
  float alpha = 8.0F, dropout = 0.0F;
  std::vector<std::string> targets = {};  // last words of modules' names, or "all-linear"; none: the family's usual ones
  std::string adapter = {};               // one that is trained further, instead of a fresh one
  bool merge = false;                     // when training ends, the whole model too
  // Not settings of the user.
  bool rslora = false;                  // alpha / √rank instead of alpha / rank
  std::vector<std::string> saved = {};  // modules that are trained whole (PEFT's modules_to_save)

  bool wanted() const { return rank != 0 || !adapter.empty(); }
  static void visit(auto& self, auto&& field) {
    field("lora_rank", self.rank,
          "with from: train an adapter of this rank (LoRA) instead of all weights, which takes a fraction of the memory (0: none)");
    field("lora_alpha", self.alpha, "its share is alpha / rank");
    field("lora_dropout", self.dropout, "dropout of what goes into it");
    field("lora_targets", self.targets,
          "modules that it is put on, by the last words of their names (q_proj, c_attn ...), or all-linear (default: the usual ones)");
    field("lora_merge", self.merge, "when training ends, write the whole model with the adapter in it to the folder merged in save_dir");
    field("adapter", self.adapter, "with from: train this adapter, a folder, further");
  }
};

}  // namespace transformer
