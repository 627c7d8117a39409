#include "transformer/autograd/autograd.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <mutex>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "backend/kernels.h"

namespace transformer {
namespace {

// Later than whatever the context has recorded, and than the inputs, which another context may have.
std::uint64_t next_order(Context& ctx, const std::vector<std::shared_ptr<Node>>& inputs) {
  std::uint64_t& order = ctx.tape_order();
  for (const auto& input : inputs)
    if (input) order = std::max(order, input->order);
  return ++order;
}

// Weights are shared by all contexts that use a model: which of them makes the low-precision copy is decided here.
std::mutex& mutex_of(const Node& leaf) {
  static std::array<std::mutex, 64> mutexes;
  return mutexes[std::hash<const Node*>()(&leaf) / alignof(std::max_align_t) % mutexes.size()];
}

// Memory for the gradient of a node that has none: its home, unless somebody still has what lies there.
Tensor new_gradient(Context& ctx, const Node& node) {
  return node.home.defined() && node.home.storage().use_count() == 1 ? node.home : Tensor::empty(ctx, node.shape, node.dtype);
}

Tensor attach(Context& ctx, Tensor y, std::vector<std::shared_ptr<Node>> inputs, Backward backward) {
  if (!ctx.recording() || std::none_of(inputs.begin(), inputs.end(), [](const auto& n) { return n != nullptr; })) return y;
  auto node = std::make_shared<Node>();
  node->shape = y.shape();
  node->dtype = y.dtype();
  node->order = next_order(ctx, inputs);
  node->inputs = std::move(inputs);
  node->backward = std::move(backward);
  y.set_node(std::move(node));
  return y;
}

// What is still to be added to a leaf's gradient: by so many ops, and by lookups, which add rows.
struct Uses {
  int whole = 0, lookups = 0;
  std::vector<Tensor> ids = {};  // of the lookups
};

std::unordered_map<Node*, Uses> uses_of_leaves(Node& y) {
  std::unordered_map<Node*, Uses> uses;
  std::unordered_set<Node*> seen{&y};
  std::vector<Node*> open{&y};
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    for (const auto& input : node->inputs) {
      if (!input) continue;
      if (input->backward) {
        if (seen.insert(input.get()).second) open.push_back(input.get());
      } else if (node->rows.defined()) {
        ++uses[input.get()].lookups, uses[input.get()].ids.push_back(node->rows);
      } else {
        ++uses[input.get()].whole;
      }
    }
  }
  return uses;
}

}  // namespace

// A long chain of ops must not recurse through its destructors: take the links apart one by one.
Node::~Node() {
  std::vector<std::shared_ptr<Node>> open = std::move(inputs);
  backward = nullptr;
  while (!open.empty()) {
    std::shared_ptr<Node> n = std::move(open.back());
    open.pop_back();
    if (!n || n.use_count() != 1) continue;
    std::move(n->inputs.begin(), n->inputs.end(), std::back_inserter(open));
    n->inputs.clear();
  }
}

Tensor& require_grad(Tensor& t) {
  if (!t.defined() || !is_float(t.dtype())) fail("require_grad", "only floating-point tensors have gradients");
  auto node = std::make_shared<Node>();
  node->shape = t.shape();
  node->dtype = t.dtype();
  t.set_node(std::move(node));
  return t;
}

bool has_gradient(const Tensor& t) { return t.node() != nullptr; }

const Tensor& gradient(const Tensor& t) {
  static const Tensor none;
  return t.node() ? t.node()->grad : none;
}

void clear_gradient(Tensor& t) {
  if (t.node()) t.node()->grad = Tensor();
}

Tensor gradient_room(Context& ctx, const Tensor& t) {
  return t.node() && t.dtype() == DType::float32 ? new_gradient(ctx, *t.node()) : Tensor::empty(ctx, t.shape());
}

bool records(Context& ctx, std::initializer_list<std::reference_wrapper<const Tensor>> inputs) {
  return ctx.recording() && std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return has_gradient(t); });
}

Tensor record(Context& ctx, Tensor y, std::initializer_list<std::reference_wrapper<const Tensor>> inputs, Backward backward) {
  std::vector<std::shared_ptr<Node>> nodes;
  for (const Tensor& t : inputs) nodes.push_back(t.node());
  return attach(ctx, std::move(y), std::move(nodes), std::move(backward));
}

Tensor record(Context& ctx, Tensor y, const std::vector<Tensor>& inputs, Backward backward) {
  std::vector<std::shared_ptr<Node>> nodes;
  for (const Tensor& t : inputs) nodes.push_back(t.node());
  return attach(ctx, std::move(y), std::move(nodes), std::move(backward));
}

DType GradientSlot::dtype() const { return node_->dtype; }

void GradientSlot::add(Context& ctx, const Tensor& g) {
  if (!node_) return;
  if (g.shape() != node_->shape) fail("backward", "a gradient of shape {} arrived for a tensor of shape {}", g.shape(), node_->shape);
  Tensor& grad = node_->grad;
  const bool at_home = !node_->home.defined() || g.storage() == node_->home.storage();
  if (!grad.defined() && g.dtype() == node_->dtype && at_home) {
    grad = g.detach();
  } else if (!grad.defined()) {
    grad = new_gradient(ctx, *node_);
    kernels(ctx).copy(ctx, g, grad);
  } else {
    Target to = target(ctx);
    kernels(ctx).add_to(ctx, g, to.tensor);
  }
}

GradientSlot::Target GradientSlot::target(Context& ctx) {
  Tensor& grad = node_->grad;
  if (!grad.defined()) {
    grad = new_gradient(ctx, *node_);
    return {grad, false};
  }
  // Someone else still reads this memory (add passes the same gradient to both sides): leave theirs alone.
  const long holders = grad.storage() == node_->home.storage() ? 2 : 1;
  if (grad.storage().use_count() > holders || !grad.is_contiguous()) {
    Tensor own = Tensor::empty(ctx, node_->shape, node_->dtype);
    kernels(ctx).copy(ctx, grad, own);
    grad = own;
  }
  return {grad, true};
}

bool distinct(const Slots& slots) {
  for (std::size_t i = 0; i < slots.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (slots[i].needed() && slots[i] == slots[j]) return false;
  return true;
}

void backward(Context& ctx, const Tensor& y, const Tensor& dy, GradientWatch* watch) {
  if (!has_gradient(y)) fail("backward", "the tensor {} was not made from anything that has a gradient", y.shape());
  if (y.node()->order != 0 && !y.node()->backward)
    fail("backward", "the tape behind this tensor was already run and freed; run forward again");
  if (!dy.defined() && y.numel() != 1) fail("backward", "start from a loss of one element, or give the gradient of {}", y.shape());
  const NoGradients no_gradients(ctx);
  GradientSlot(y.node().get()).add(ctx, dy.defined() ? dy : Tensor::full(ctx, y.shape(), 1.0F, y.dtype()));

  // The order of the tape is a topological order: take the latest reachable entry, run it, drop it.
  auto later = [](const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) { return a->order < b->order; };
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, decltype(later)> queue(later);
  queue.push(y.node());
  Node* last = nullptr;
  auto uses = watch != nullptr ? uses_of_leaves(*y.node()) : std::unordered_map<Node*, Uses>();
  while (!queue.empty()) {
    const std::shared_ptr<Node> node = queue.top();
    queue.pop();
    if (node.get() == last || !node->backward) continue;  // reached twice; or a leaf
    last = node.get();
    Slots slots;
    slots.reserve(node->inputs.size());
    for (const auto& input : node->inputs) slots.emplace_back(input.get());
    Tensor grad = std::exchange(node->grad, Tensor());
    if (grad.defined() && !grad.is_contiguous()) {
      Tensor dense = Tensor::empty(ctx, grad.shape(), grad.dtype());
      kernels(ctx).copy(ctx, grad, dense);
      grad = dense;
    }
    const Backward run = std::exchange(node->backward, nullptr);
    const bool lookup = node->rows.defined();
    if (lookup && uses.contains(node->inputs.front().get())) watch->before_rows(ctx, *node->inputs.front());
    if (grad.defined()) run(ctx, grad, slots);
    for (auto& input : node->inputs) {
      if (input && input->backward) queue.push(input);
      const auto leaf = uses.find(input.get());
      if (leaf == uses.end()) continue;
      Uses& left = leaf->second;
      --(lookup ? left.lookups : left.whole);
      if (left.whole == 0 && left.lookups == 0) watch->finished(ctx, *input);
      else if (left.whole == 0 && !lookup) watch->only_rows_left(ctx, *input, left.ids);
    }
    node->inputs.clear();
  }
}

Tensor in_precision(Context& ctx, const Tensor& w, DType dtype) {
  if (!w.defined() || w.dtype() == dtype) return w.detach();
  auto convert = [&] {
    Tensor copy = Tensor::empty(ctx, w.shape(), dtype);
    kernels(ctx).copy(ctx, w, copy);
    return copy;
  };
  Node* leaf = w.node().get();
  if (!leaf || leaf->order != 0) return convert();
  const std::lock_guard lock(mutex_of(*leaf));
  Tensor& kept = leaf->low_precision;
  const bool fits = kept.defined() && kept.dtype() == dtype;
  if (!fits || leaf->low_precision_version != w.storage()->version) {
    if (fits && kept.storage().use_count() == 1) kernels(ctx).copy(ctx, w, kept);  // nobody has the old one: it is renewed in place
    else kept = convert();
    leaf->low_precision_version = w.storage()->version;
  }
  return kept;
}

}  // namespace transformer
