#include "transformer/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "backend/kernels.h"
#include "train/arena.h"
#include "train/layer_pieces.h"
#include "train/shards.h"
#include "transformer/ops/copy.h"

namespace transformer {
namespace {

void write_state(const StepState& state, Tensor& to) { to.storage()->backend->to_device(&state, to.mutable_raw(), sizeof state); }

StepState read_state(const Tensor& from) {
  StepState state;
  from.storage()->backend->to_host(from.raw(), &state, sizeof state);
  return state;
}

std::string called(const Adam::Parameter& p, std::size_t index) { return p.name.empty() ? fmt::format("parameter {}", index) : p.name; }

std::vector<Adam::Parameter> with_decay(const std::vector<NamedParameter>& parameters, Adam::Decays decays) {
  std::vector<Adam::Parameter> out;
  for (const NamedParameter& p : parameters)
    if (p.parameter->trained) out.push_back({p.parameter->tensor, p.name, decays == nullptr || decays(p), p.parameter->layer});
  return out;
}

std::vector<Adam::Parameter> unnamed(const std::vector<Tensor>& parameters) {
  std::vector<Adam::Parameter> out;
  for (const Tensor& t : parameters) out.push_back({.tensor = t});
  return out;
}

// A storage that several layers use, or what is outside of layers too, belongs to none.
void leave_shared_out(std::vector<Adam::Parameter>& parameters) {
  std::unordered_map<const Storage*, const void*> layers;
  for (const Adam::Parameter& p : parameters)
    if (const auto [it, added] = layers.try_emplace(p.tensor.storage().get(), p.layer); !added && it->second != p.layer)
      it->second = nullptr;
  for (Adam::Parameter& p : parameters) p.layer = layers.at(p.tensor.storage().get());
}

}  // namespace

Adam::Adam(Context& ctx, const std::vector<Tensor>& parameters, const AdamOptions& options) : Adam(ctx, unnamed(parameters), options) {}

Adam::Adam(Context& ctx, const std::vector<NamedParameter>& parameters, const AdamOptions& options, Decays decays)
    : Adam(ctx, with_decay(parameters, decays), options) {}

Adam::Adam(Context& ctx, std::vector<Parameter> parameters, const AdamOptions& options)
    : options_(options), step_(Tensor::empty(ctx, {sizeof(StepState)}, DType::uint8)) {
  write_state({}, step_);
  auto fraction = [](float beta) { return beta >= 0.0F && beta < 1.0F; };
  if (!fraction(options.beta1) || !fraction(options.beta2))
    fail("Adam", "betas are {} and {}: expected values in [0, 1)", options.beta1, options.beta2);
  if (!(options.eps >= 0.0F)) fail("Adam", "eps is {}: expected 0 or more", options.eps);
  if (!(options.weight_decay >= 0.0F)) fail("Adam", "weight_decay is {}: expected 0 or more", options.weight_decay);
  leave_shared_out(parameters);
  std::unordered_set<const Node*> seen;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& p = parameters[i];
    const Tensor& t = p.tensor;
    if (!t.defined()) fail("Adam", "{} is undefined", called(p, i));
    if (t.dtype() != DType::float32 || !t.is_contiguous())
      fail("Adam", "{} {} {} must be float32 and contiguous", called(p, i), t.shape(), t.dtype());
    if (t.device() != ctx.device()) fail("Adam", "{} is on {}, the context on {}", called(p, i), t.device(), ctx.device());
    if (!has_gradient(t) || t.node()->order != 0) fail("Adam", "{} is not a leaf: call require_grad on it", called(p, i));
    if (!seen.insert(t.node().get()).second) continue;
    state_.push_back({std::move(p), {}, {}});
  }
  const auto in_pieces = [&](const Parameter& p) { return options.shard_weights && p.layer != nullptr && !ctx.communicator().alone(); };
  std::vector<LayerPieces::Leaf> pieces;
  for (const State& s : state_)
    if (const Parameter& p = s.parameter; in_pieces(p)) pieces.push_back({p.tensor, p.layer, p.decay});
  for (const bool decays : {true, false})
    for (std::size_t i = 0; i < state_.size(); ++i)
      if (state_[i].parameter.decay == decays && !in_pieces(state_[i].parameter)) order_.push_back(i);
  if (!pieces.empty()) pieces_ = std::make_unique<LayerPieces>(ctx, pieces);
  std::vector<Tensor> leaves;
  for (std::size_t i : order_) leaves.push_back(state_[i].parameter.tensor);
  arena_ = std::make_unique<Arena>(ctx, std::move(leaves));
  if (!ctx.communicator().alone()) shards_ = std::make_unique<Shards>(ctx, *arena_);
  m_ = shards_ ? shards_->block(ctx) : arena_->block(ctx);
  v_ = shards_ ? shards_->block(ctx) : arena_->block(ctx);
  for (std::size_t i = 0; i < order_.size() && !shards_; ++i)
    state_[order_[i]].m = arena_->part(m_, i), state_[order_[i]].v = arena_->part(v_, i);
  keep_low_precision(ctx);
}

Adam::~Adam() = default;

double Adam::step(Context& ctx, float lr, float max_norm) {
  begin(ctx, lr);
  update(ctx, max_norm);
  return read_state(step_).norm;
}

void Adam::begin(Context& ctx, float lr) { kernels(ctx).begin_step(ctx, {.lr = lr, .random_step = ctx.random().step()}, step_); }

void Adam::add_loss(Context& ctx, const Tensor& loss, double weight) { kernels(ctx).add_loss(ctx, loss.detach(), weight, step_); }

// The copies in the block are those that in_precision gives, and up to date.
void Adam::keep_low_precision(Context& ctx) {
  const bool made = low_precision_.defined();
  if (!made && ctx.precision() != DType::bfloat16) return;
  if (!made) {
    low_precision_ = arena_->block(ctx, DType::bfloat16);
    kernels(ctx).copy(ctx, arena_->weights(), low_precision_);
  }
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Tensor& leaf = arena_->leaves()[i];
    Node& node = *leaf.node();
    Tensor copy = arena_->part(low_precision_, i);
    const bool here = node.low_precision.raw() == copy.raw();
    if (here && node.low_precision_version == leaf.storage()->version) continue;
    if (made) kernels(ctx).copy(ctx, leaf.detach(), copy);
    if (!here) node.low_precision = copy;
    node.low_precision_version = leaf.storage()->version;
  }
}

void Adam::update(Context& ctx, float max_norm) {
  if (!(max_norm >= 0.0F)) fail("Adam", "max_norm is {}: expected 0 (no clipping) or more", max_norm);
  const NoGradients no_gradients(ctx);
  arena_->settle(ctx);
  keep_low_precision(ctx);
  const std::vector<Tensor>& leaves = arena_->leaves();
  std::vector<bool> given;  // have a gradient
  if (shards_) given = shards_->reduce(ctx);
  else
    for (const Tensor& leaf : leaves) given.push_back(gradient(leaf).defined());
  std::vector<AdamSlot> slots;
  arena_->for_stretches(
      given, [&](std::size_t i) { return state_[order_[i]].parameter.decay; },
      [&](std::int64_t begin, std::int64_t end, bool decays) { add_slots(slots, begin, end, decays ? options_.weight_decay : 0.0F); });
  if (pieces_) {
    pieces_->reduce(ctx);
    pieces_->add_slots(slots, options_.weight_decay);
  }
  if (slots.empty() && !shards_) return;
  std::vector<Tensor> gradients;
  for (const AdamSlot& slot : slots) gradients.push_back(slot.gradient);
  if (!slots.empty()) kernels(ctx).gradient_norm(ctx, gradients, step_);
  if (shards_) {  // loss and norm stand side by side
    kernels(ctx).share_step(ctx, step_);
    ctx.communicator().all_reduce(ctx.backend(), reinterpret_cast<double*>(step_.mutable_raw()), 2)->wait();
    kernels(ctx).whole_step(ctx, step_);
  }
  kernels(ctx).adam(
      ctx, slots,
      {.beta1 = options_.beta1, .beta2 = options_.beta2, .eps = options_.eps, .max_norm = max_norm, .decoupled = options_.decoupled},
      step_);
  if (shards_) {
    Tensor weights = arena_->weights();
    shards_->gather(ctx, weights);
    if (low_precision_.defined()) kernels(ctx).copy(ctx, weights, low_precision_);
  }
  if (pieces_) pieces_->updated();
  for (const Tensor& leaf : leaves) ++leaf.storage()->version;  // written through the block
  if (!low_precision_.defined()) return;
  for (const Tensor& leaf : leaves) leaf.node()->low_precision_version = leaf.storage()->version;
}

// Elements begin … end of the arena, or this process's pieces of them.
void Adam::add_slots(std::vector<AdamSlot>& slots, std::int64_t begin, std::int64_t end, float decay) const {
  const auto add = [&](const Tensor& gradients, std::int64_t at, std::int64_t own, std::int64_t size) {
    const auto stretch = [&](const Tensor& block, std::int64_t from) { return Arena::stretch(block, from, from + size); };
    const bool low = low_precision_.defined() && !shards_;  // pieces are copied when all are there
    slots.push_back({stretch(arena_->weights(), at), stretch(gradients, own), stretch(m_, own), stretch(v_, own),
                     low ? stretch(low_precision_, at) : Tensor(), decay});
  };
  if (!shards_) return add(arena_->gradients(), begin, begin, end - begin);
  for (const Shards::Piece& piece : shards_->pieces(begin, end)) add(shards_->gradients(), piece.begin, piece.local, piece.size);
}

GradientWatch* Adam::exchanging() const { return shards_.get(); }

Adam::Gradients Adam::take_gradients(Context& ctx) {
  if (pieces_) pieces_->end_pass(ctx);
  arena_->settle(ctx);
  Gradients taken{.block = arena_->block(ctx)};
  kernels(ctx).copy(ctx, arena_->gradients(), taken.block);
  for (const Tensor& leaf : arena_->leaves()) taken.given.push_back(gradient(leaf).defined());
  zero_gradients();
  return taken;
}

void Adam::add_gradients(Context& ctx, const Gradients& taken) {
  const NoGradients no_gradients(ctx);
  for (std::size_t i = 0; i < taken.given.size(); ++i)
    if (taken.given[i]) GradientSlot(arena_->leaves()[i].node().get()).add(ctx, arena_->part(taken.block, i));
}

std::vector<Adam::State> Adam::whole_state(Context& ctx) const {
  if (!shards_) return state_;
  Context host({.device = Device::parse("cpu"), .threads = 1});
  std::vector<State> out;
  std::vector<Tensor> whole;
  for (const Tensor* pieces : {&m_, &v_}) {
    Tensor& block = whole.emplace_back();
    if (ctx.communicator().first()) block = arena_->block(host);
    shards_->collect(ctx, *pieces, [&](std::int64_t begin, std::span<const float> values) {
      std::copy(values.begin(), values.end(), block.mutable_data<float>() + begin);
    });
  }
  if (!ctx.communicator().first()) return out;
  out = state_;
  for (std::size_t i = 0; i < order_.size(); ++i)
    out[order_[i]].m = arena_->part(whole[0], i), out[order_[i]].v = arena_->part(whole[1], i);
  return out;
}

std::unique_ptr<Arrival> Adam::result(Context& ctx, StepState& to) const {
  return ctx.backend().to_host_later(step_.raw(), &to, sizeof to);
}

std::int64_t Adam::state_bytes() const { return 2 * (m_.numel() + (pieces_ ? pieces_->size() : 0)) * size_of(DType::float32); }

std::int64_t Adam::steps() const { return read_state(step_).updates; }

void Adam::zero_gradients() {
  for (State& s : state_) clear_gradient(s.parameter.tensor);
}

void Adam::set_state(Context& ctx, std::size_t index, const Tensor& m, const Tensor& v) {
  if (index >= state_.size()) fail("Adam", "there is no parameter {}, only {}", index, state_.size());
  State& s = state_[index];
  const Shape& shape = s.parameter.tensor.shape();
  for (const Tensor* t : {&m, &v})
    if (!t->defined() || t->shape() != shape || !is_float(t->dtype()))
      fail("Adam", "the state given for {} is {} {}: expected {} float32", called(s.parameter, index), t->shape(), t->dtype(), shape);
  if (pieces_ && pieces_->has(s.parameter.tensor)) {
    pieces_->set(ctx, s.parameter.tensor, LayerPieces::m, m);
    pieces_->set(ctx, s.parameter.tensor, LayerPieces::v, v);
    return;
  }
  if (!shards_) {
    copy_into(ctx, m, s.m);
    copy_into(ctx, v, s.v);
    return;
  }
  const auto [begin, end] = arena_->place(static_cast<std::size_t>(std::find(order_.begin(), order_.end(), index) - order_.begin()));
  for (const auto& [from, block] : {std::pair{&m, &m_}, std::pair{&v, &v_}}) {
    const Tensor flat = from->view({from->numel()});
    for (const Shards::Piece& piece : shards_->pieces(begin, end)) {
      Tensor to = Arena::stretch(*block, piece.local, piece.local + piece.size);
      copy_into(ctx, Arena::stretch(flat, flat.offset() + piece.begin - begin, flat.offset() + piece.begin - begin + piece.size), to);
    }
  }
}

void Adam::set_steps(std::int64_t steps) {
  if (steps < 0) fail("Adam", "steps is {}: expected 0 or more", steps);
  StepState state = read_state(step_);
  state.updates = steps;
  write_state(state, step_);
}

bool decay_matrices(const NamedParameter& p) { return p.parameter->shape.rank() > 1; }

double clip_gradients(Context& ctx, std::span<const Tensor> parameters, float max_norm) {
  if (!(max_norm > 0.0F)) fail("clip_gradients", "max_norm is {}: expected more than 0", max_norm);
  const NoGradients no_gradients(ctx);
  std::vector<Tensor> gradients;
  std::unordered_set<const Node*> seen;
  for (const Tensor& p : parameters)
    if (gradient(p).defined() && seen.insert(p.node().get()).second) gradients.push_back(GradientSlot(p.node().get()).target(ctx).tensor);
  const double norm = std::sqrt(kernels(ctx).sum_of_squares(ctx, gradients));
  const float factor = clipping(norm, max_norm);
  if (factor < 1.0F)
    for (Tensor& g : gradients) kernels(ctx).scale(ctx, factor, g, g);
  return norm;
}

}  // namespace transformer
