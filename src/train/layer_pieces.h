#pragma once
// Layers whose weights, gradients and optimizer's state processes keep in pieces (ZeRO-3, FSDP): of each layer one piece a process. The
// whole of a layer is there while it computes. Its weights are put together (all-gather) before it does, forward and backward, the next
// one's while it does; its gradients are summed (reduce-scatter) and let go when backward is through with it.
//
// Processes do not compute the same: one has more parts of a batch, another sentence to translate, or writes a checkpoint. So before each
// exchange all say what they want, and all take part in what anybody wants. Whoever comes to an exchange of another kind, which the
// context's communicator makes, helps the others until they have come there as well.

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/kernels.h"
#include "train/block_layout.h"
#include "transformer/autograd/layer_weights.h"
#include "transformer/core/communicator.h"

namespace transformer {

class LayerPieces final : public LayerWeights {
 public:
  struct Leaf {
    Tensor tensor;
    const void* layer;
    bool decay;
  };
  // Cuts the weights; the context uses them so from now on, until this is destroyed. They stay in pieces then.
  LayerPieces(Context& ctx, const std::vector<Leaf>& leaves);
  ~LayerPieces() override;
  LayerPieces(const LayerPieces&) = delete;
  LayerPieces& operator=(const LayerPieces&) = delete;

  void pass_on(Context& ctx, const void* done, const void* next, bool backward) override;
  void read(Context& ctx, const void* layer) override;
  void write(Context& ctx, const Tensor& weight, const std::function<void()>& fill) override;

  bool has(const Tensor& leaf) const { return leaf.node() && places_.contains(leaf.node().get()); }
  std::int64_t size() const { return size_; }  // elements of this process's pieces
  // What this process has of everything: float32 [size()].
  enum Block : std::int32_t { weights, m, v, average };
  const Tensor& block(Block which) const { return blocks_[static_cast<std::size_t>(which)]; }
  void set_average(const Tensor& block) { blocks_[average] = block; }
  // A leaf in a block, put together; others may go on computing, or wait in an exchange of all. And this process's piece of it, from a
  // whole in the host's memory.
  Tensor whole(Context& ctx, const Tensor& leaf, Block which);
  void set(Context& ctx, const Tensor& leaf, Block which, const Tensor& whole);

  // After backward, before the gradients of what is not in pieces are taken away.
  void end_pass(Context& ctx);
  // An update: ends backward, then the pieces that have a gradient in any process, as slots for the optimizer's kernel.
  void reduce(Context& ctx);
  void add_slots(std::vector<AdamSlot>& slots, float weight_decay) const;
  void updated();  // the weights are others now

 private:
  struct Unit {
    const void* layer = nullptr;
    BlockLayout layout;
    std::vector<bool> decays, given;   // by leaf; given: has a gradient, since the last update
    std::int64_t each = 0, begin = 0;  // elements of a piece; where this process's begins in its blocks
    Tensor weights, gradients;         // of the whole layer, while they are there
    ExchangePtr coming;                // the weights, not waited for yet
    bool summed = false;               // since the last update
  };
  struct Request {
    static constexpr std::int32_t nothing = -1, sum = -2;
    std::int32_t what = nothing, unit = 0;  // what: one of these, or a Block to be put together
    bool operator==(const Request&) const = default;
  };
  static constexpr std::size_t most = 3;  // requests at a time
  struct Sum {                            // under way
    Tensor from, to;
    const Unit* unit;
    bool add;  // to what is there
    ExchangePtr exchange;
  };
  class Meeting;
  struct Place {
    std::size_t unit, leaf;
  };

  Unit* find(const void* layer);
  const Place& place_of(const Tensor& leaf) const { return places_.at(leaf.node().get()); }
  std::int32_t number(const Unit& unit) const { return static_cast<std::int32_t>(&unit - units_.data()); }
  static Tensor piece(const Unit& unit, const Tensor& block) { return BlockLayout::stretch(block, unit.begin, unit.begin + unit.each); }
  void ask(Context& ctx, const std::vector<Request>& mine);
  void take_part(Context& ctx, const Request& request, bool wanted);
  void arrive(Context& ctx, Unit& unit);
  void let_go(Unit& unit);
  void begin_backward(Unit& unit);
  void end_backward(Context& ctx, Unit& unit);
  void finish_sum(Context& ctx);
  void for_overlap(const Unit& unit, std::size_t leaf, const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& use) const;

  Context& ctx_;
  std::shared_ptr<Communicator> processes_;
  std::vector<Unit> units_;
  std::unordered_map<const void*, std::size_t> units_of_;
  std::unordered_map<const Node*, Place> places_;
  std::int64_t size_ = 0;
  std::vector<Tensor> blocks_;
  Tensor gradients_;
  Unit* ahead_ = nullptr;  // its weights come before it is its turn
  std::optional<Sum> summing_;
  struct Read {
    const Unit* of = nullptr;
    Tensor whole;
    ExchangePtr coming;
  };
  std::vector<Read> reads_;  // of each block but the weights: the layer that was read last
  const void* reading_ = nullptr;
};

}  // namespace transformer
