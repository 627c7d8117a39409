#include "train/layer_pieces.h"

#include <algorithm>
#include <array>
#include <utility>

#include "transformer/ops/copy.h"

namespace transformer {
namespace {

float* begin_of(Tensor& t) { return reinterpret_cast<float*>(t.mutable_raw()); }

// The memory of one tensor becomes that of a storage, and so of all tensors in it.
void place_in(const Tensor& memory, Storage& storage) {
  storage.data = memory.storage()->data;
  storage.backend = memory.storage()->backend;
}

}  // namespace

// The processes as all others see them.
class LayerPieces::Meeting final : public ForwardingCommunicator {
 public:
  Meeting(LayerPieces& pieces, std::shared_ptr<Communicator> to) : ForwardingCommunicator(std::move(to)), pieces_(pieces) {}
  using Communicator::all_gather;
  void all_gather(const void* own, std::size_t bytes, void* all) override { meet(), to_->all_gather(own, bytes, all); }
  void broadcast(void* data, std::size_t bytes, int from) override { meet(), to_->broadcast(data, bytes, from); }
  ExchangePtr reduce_scatter(Backend& on, const float* all, float* own, std::int64_t each) override {
    return meet(), to_->reduce_scatter(on, all, own, each);
  }
  ExchangePtr all_gather(Backend& on, float* all, std::int64_t each) override { return meet(), to_->all_gather(on, all, each); }
  ExchangePtr all_reduce(Backend& on, double* values, std::int64_t count) override { return meet(), to_->all_reduce(on, values, count); }

 private:
  void meet() { pieces_.ask(pieces_.ctx_, {}); }
  LayerPieces& pieces_;
};

LayerPieces::LayerPieces(Context& ctx, const std::vector<Leaf>& leaves) : ctx_(ctx), processes_(ctx.shared_communicator()) {
  std::vector<const void*> layers;
  for (const Leaf& leaf : leaves)
    if (std::find(layers.begin(), layers.end(), leaf.layer) == layers.end()) layers.push_back(leaf.layer);
  for (const void* layer : layers) {
    std::vector<Tensor> tensors;
    std::vector<bool> decays;
    for (const bool decay : {true, false})
      for (const Leaf& leaf : leaves)
        if (leaf.layer == layer && leaf.decay == decay) tensors.push_back(leaf.tensor), decays.push_back(decay);
    const std::size_t u = units_.size();
    for (std::size_t i = 0; i < tensors.size(); ++i) places_[tensors[i].node().get()] = {u, i};
    units_of_[layer] = u;
    Unit unit{.layer = layer, .layout = BlockLayout(std::move(tensors), processes_->size()), .decays = std::move(decays), .begin = size_};
    unit.given.resize(unit.decays.size(), false);
    unit.each = unit.layout.size() / processes_->size();
    size_ += unit.each;
    units_.push_back(std::move(unit));
  }
  blocks_.push_back(Tensor::zeros(ctx, {size_}));
  for (Unit& unit : units_)
    for (std::size_t i = 0; i < unit.decays.size(); ++i) {  // what they had is free before more is taken
      const Tensor& leaf = unit.layout.leaves()[i];
      set(ctx, leaf, weights, leaf.detach());
      const bool last = std::none_of(unit.layout.leaves().begin() + static_cast<std::ptrdiff_t>(i) + 1, unit.layout.leaves().end(),
                                     [&](const Tensor& other) { return other.storage() == leaf.storage(); });
      if (last) leaf.storage()->data = nullptr;
      leaf.node()->low_precision = Tensor();
    }
  ctx.allocator().release_kept();  // what the whole weights had
  for (int i = 0; i < 2; ++i) blocks_.push_back(Tensor::zeros(ctx, {size_}));
  blocks_.emplace_back();
  reads_.resize(blocks_.size());
  gradients_ = Tensor::zeros(ctx, {size_});
  ctx.set_layer_weights(this, std::make_shared<Meeting>(*this, processes_));
}

LayerPieces::~LayerPieces() {
  for (Unit& unit : units_) {
    let_go(unit);
    for (const Tensor& leaf : unit.layout.leaves()) leaf.node()->home = Tensor();
  }
  ctx_.set_layer_weights(nullptr, processes_);
}

LayerPieces::Unit* LayerPieces::find(const void* layer) {
  const auto it = units_of_.find(layer);
  return it != units_of_.end() ? &units_[it->second] : nullptr;
}

// All processes say what they want and take part in all of it, in the order of the ranks. Who wants nothing goes on when nobody does.
void LayerPieces::ask(Context& ctx, const std::vector<Request>& mine) {
  std::array<Request, most> own;
  std::copy(mine.begin(), mine.end(), own.begin());
  std::vector<Request> all(most * static_cast<std::size_t>(processes_->size()));
  for (bool together = false; !together;) {
    processes_->all_gather(own.data(), sizeof own, all.data());
    std::vector<Request> wanted;
    for (const Request& request : all)
      if (request.what != Request::nothing && std::find(wanted.begin(), wanted.end(), request) == wanted.end()) wanted.push_back(request);
    for (const Request& request : wanted) take_part(ctx, request, std::find(own.begin(), own.end(), request) != own.end());
    together = wanted.empty() || !mine.empty();
  }
}

void LayerPieces::take_part(Context& ctx, const Request& request, bool wanted) {
  Unit& unit = units_[static_cast<std::size_t>(request.unit)];
  const std::int64_t each = unit.each, rank = processes_->rank();
  if (request.what == Request::sum) {
    finish_sum(ctx);
    Tensor from = wanted ? std::exchange(unit.gradients, Tensor()) : Tensor::zeros(ctx, {unit.layout.size()});
    const bool add = std::exchange(unit.summed, true);
    Tensor to = add ? Tensor::empty(ctx, {each}) : piece(unit, gradients_);
    summing_.emplace(Sum{from, to, &unit, add, processes_->reduce_scatter(ctx.backend(), begin_of(from), begin_of(to), each)});
    return;
  }
  Tensor whole = Tensor::empty(ctx, {unit.layout.size()});
  Tensor own = BlockLayout::stretch(whole, each * rank, each * (rank + 1));
  kernels(ctx).copy(ctx, piece(unit, block(static_cast<Block>(request.what))), own);
  ExchangePtr exchange = processes_->all_gather(ctx.backend(), begin_of(whole), each);
  if (!wanted) return exchange->wait();
  if (request.what == weights) unit.weights = whole, unit.coming = std::move(exchange);
  else reads_[static_cast<std::size_t>(request.what)] = {&unit, whole, std::move(exchange)};
}

void LayerPieces::finish_sum(Context& ctx) {
  if (!summing_) return;
  summing_->exchange->wait();
  if (Tensor sum = piece(*summing_->unit, gradients_); summing_->add) kernels(ctx).add_to(ctx, summing_->to, sum);
  summing_.reset();
}

// The layer's weights that were asked for are there, and whoever has them sees them: the leaves, and their copies in the compute dtype,
// which backward has kept since forward.
void LayerPieces::arrive(Context& ctx, Unit& unit) {
  if (!unit.coming) return;
  std::exchange(unit.coming, nullptr)->wait();
  for (std::size_t i = 0; i < unit.decays.size(); ++i) {
    const Tensor& leaf = unit.layout.leaves()[i];
    place_in(unit.layout.storage_of(unit.weights, i), *leaf.storage());
    Node& node = *leaf.node();
    if (!node.low_precision.defined()) continue;
    Tensor copy = Tensor::like(ctx, node.low_precision);
    kernels(ctx).copy(ctx, leaf.detach(), copy);
    place_in(copy, *node.low_precision.storage());
    node.low_precision_version = leaf.storage()->version;
  }
}

void LayerPieces::let_go(Unit& unit) {
  unit.coming = nullptr;
  unit.weights = Tensor();
  for (const Tensor& leaf : unit.layout.leaves()) {
    leaf.storage()->data = nullptr;
    if (const Tensor& copy = leaf.node()->low_precision; copy.defined()) copy.storage()->data = nullptr;
  }
}

// All that is wanted is asked for at once: what comes early, and the sum of the gradients, are exchanged while the next layer computes.
void LayerPieces::pass_on(Context& ctx, const void* done, const void* next, bool backward) {
  std::vector<Request> wants;
  if (Unit* before = find(done)) {
    if (backward) {
      end_backward(ctx, *before);
      wants.push_back({Request::sum, number(*before)});
    } else if (before != &units_.back() || !ctx.recording()) {  // the last one stays: backward begins with it
      let_go(*before);
    }
  }
  Unit* unit = find(next);
  if (unit != nullptr) {
    if (ahead_ != nullptr && ahead_ != unit) let_go(*ahead_);  // it was not its turn
    const std::int64_t then = number(*unit) + (backward ? -1 : 1);
    ahead_ = then >= 0 && then < std::ssize(units_) ? &units_[static_cast<std::size_t>(then)] : nullptr;
    if (ahead_ != nullptr && ahead_->weights.defined()) ahead_ = nullptr;
    for (Unit* wanted : {unit, ahead_})
      if (wanted != nullptr && !wanted->weights.defined()) wants.push_back({weights, number(*wanted)});
  }
  if (!wants.empty()) ask(ctx, wants);
  if (unit == nullptr) return;
  arrive(ctx, *unit);
  if (backward) begin_backward(*unit);
}

void LayerPieces::begin_backward(Unit& unit) {
  if (unit.gradients.defined()) return;
  unit.gradients = Tensor::empty(ctx_, {unit.layout.size()});
  for (std::size_t i = 0; i < unit.decays.size(); ++i) {
    unit.layout.leaves()[i].node()->home = unit.layout.part(unit.gradients, i);
    if (Tensor gap = unit.layout.gap(unit.gradients, i); gap.numel() > 0) kernels(ctx_).fill(ctx_, 0.0F, gap);
  }
}

void LayerPieces::end_backward(Context& ctx, Unit& unit) {
  for (std::size_t i = 0; i < unit.decays.size(); ++i) {
    Node& node = *unit.layout.leaves()[i].node();
    Tensor home = std::exchange(node.home, Tensor()), grad = std::exchange(node.grad, Tensor());
    if (!grad.defined()) kernels(ctx).fill(ctx, 0.0F, home);
    else if (grad.storage() != home.storage()) kernels(ctx).copy(ctx, grad, home);
    if (grad.defined()) unit.given[i] = true;
  }
  let_go(unit);
}

// What goes into a layer may have no gradient: backward has then not come to its beginning.
void LayerPieces::end_pass(Context& ctx) {
  for (Unit& unit : units_) {
    let_go(unit);
    if (!unit.gradients.defined()) continue;
    end_backward(ctx, unit);
    ask(ctx, {{Request::sum, number(unit)}});
  }
  ahead_ = nullptr;
}

void LayerPieces::reduce(Context& ctx) {
  end_pass(ctx);
  std::vector<std::uint8_t> own, all;
  for (const Unit& unit : units_)
    for (const bool given : unit.given) own.push_back(given ? 1 : 0);
  all.resize(own.size() * static_cast<std::size_t>(processes_->size()));
  ctx.communicator().all_gather(own.data(), own.size(), all.data());
  finish_sum(ctx);
  std::size_t at = 0;
  for (Unit& unit : units_)
    for (std::size_t i = 0; i < unit.given.size(); ++i, ++at)
      for (std::size_t from = at; from < all.size(); from += own.size())
        if (all[from] != 0) unit.given[i] = true;
}

void LayerPieces::add_slots(std::vector<AdamSlot>& slots, float weight_decay) const {
  for (const Unit& unit : units_) {
    const std::int64_t first = unit.each * processes_->rank();
    unit.layout.for_stretches(
        unit.given, [&](std::size_t i) { return unit.decays[i]; },
        [&](std::int64_t begin, std::int64_t end, bool decays) {
      const std::int64_t from = std::max(begin - first, std::int64_t{0}), to = std::min(end - first, unit.each);
      if (from >= to) return;
      const auto own = [&](const Tensor& block) { return BlockLayout::stretch(block, unit.begin + from, unit.begin + to); };
      slots.push_back({own(blocks_[weights]), own(gradients_), own(blocks_[m]), own(blocks_[v]), Tensor(), decays ? weight_decay : 0.0F});
        });
  }
}

void LayerPieces::updated() {
  for (Unit& unit : units_) {
    unit.summed = false;
    unit.given.assign(unit.given.size(), false);
    for (const Tensor& leaf : unit.layout.leaves()) ++leaf.storage()->version;
  }
  for (Read& read : reads_) read = {};
}

// use(begin, end, local): elements begin … end of the leaf are `local` … of this process's blocks; at most once.
void LayerPieces::for_overlap(const Unit& unit, std::size_t leaf,
                              const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& use) const {
  const auto [begin, end] = unit.layout.place(leaf);
  const std::int64_t first = unit.each * processes_->rank();
  const std::int64_t from = std::max(begin, first), to = std::min(end, first + unit.each);
  if (from < to) use(from - begin, to - begin, unit.begin + from - first);
}

void LayerPieces::set(Context& ctx, const Tensor& leaf, Block which, const Tensor& whole) {
  const Place& at = place_of(leaf);
  for_overlap(units_[at.unit], at.leaf, [&](std::int64_t begin, std::int64_t end, std::int64_t local) {
    Tensor own = BlockLayout::stretch(block(which), local, local + end - begin);
    copy_into(ctx, BlockLayout::stretch(whole, whole.offset() + begin, whole.offset() + end), own);
  });
}

Tensor LayerPieces::whole(Context& ctx, const Tensor& leaf, Block which) {
  const Place& at = place_of(leaf);
  Read& last = reads_[static_cast<std::size_t>(which)];
  const Unit& unit = units_[at.unit];
  if (last.of != &unit) {
    last = {};
    ask(ctx, {{which, number(unit)}});
  }
  if (last.coming) std::exchange(last.coming, nullptr)->wait();
  return unit.layout.part(last.whole, at.leaf);
}

void LayerPieces::read(Context& ctx, const void* layer) {
  if (reading_ == layer) return;
  if (Unit* before = find(std::exchange(reading_, layer))) let_go(*before);
  if (Unit* unit = find(layer)) {
    ask(ctx, {{weights, number(*unit)}});
    arrive(ctx, *unit);
  }
}

void LayerPieces::write(Context& ctx, const Tensor& weight, const std::function<void()>& fill) {
  if (!has(weight)) return fill();
  const Place& at = place_of(weight);
  const Unit& unit = units_[at.unit];
  const Tensor memory = Tensor::zeros(ctx, {weight.storage()->bytes / size_of(weight.dtype())});
  place_in(memory, *weight.storage());
  for_overlap(unit, at.leaf, [&](std::int64_t begin, std::int64_t end, std::int64_t local) {
    Tensor to = BlockLayout::stretch(memory, weight.offset() + begin, weight.offset() + end);
    kernels(ctx).copy(ctx, BlockLayout::stretch(block(weights), local, local + end - begin), to);
  });
  fill();
  set(ctx, weight, weights, weight.detach());
  weight.storage()->data = nullptr;
}

}  // namespace transformer
