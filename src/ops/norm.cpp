#include "transformer/ops/norm.h"

#include <memory>
#include <utility>

#include "ops/dropout_args.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"

namespace transformer {
namespace {

Kernels::NormArgs checked_norm(Context& ctx, std::string_view op, const Tensor& x, const NormOptions& o) {
  check_float(ctx, op, "x", x);
  if (x.rank() == 0) fail(op, "x must have a last dimension to norm over, got shape {}", x.shape());
  auto check_parameter = [&](std::string_view name, const Tensor& t) {
    if (!t.defined()) return;
    check_float(ctx, op, name, t);
    if (t.shape() != Shape{x.cols()}) fail(op, "{} {} does not fit x {}: expected [{}]", name, t.shape(), x.shape(), x.cols());
    if (t.dtype() != DType::float32 && t.dtype() != x.dtype())
      fail(op, "{} is {}, expected float32 or the {} of x", name, t.dtype(), x.dtype());
  };
  check_parameter("weight", o.weight);
  check_parameter("bias", o.bias);
  if (!(o.eps >= 0.0F)) fail(op, "eps must be 0 or more, got {}", o.eps);
  Kernels::NormArgs args;
  args.kind = o.kind;
  args.eps = o.eps;
  args.weight = o.weight.detach();
  args.bias = o.bias.detach();
  return args;
}

// The dropout of sub: none unless training.
DropoutArgs checked_dropout(Context& ctx, std::string_view op, const Tensor& x, const Tensor& sub, float p) {
  check_float(ctx, op, "x", x);
  check_float(ctx, op, "sub", sub);
  if (x.shape() != sub.shape() || x.dtype() != sub.dtype())
    fail(op, "x {} {} and sub {} {} must have the same shape and dtype", x.shape(), x.dtype(), sub.shape(), sub.dtype());
  return dropout_args(ctx, op, p);
}

// What backward needs of the rows: float32 [rows], undefined when nothing is recorded.
struct Statistics {
  Tensor mean, rstd;
};
Statistics statistics(Context& ctx, bool recorded, const Tensor& x, NormKind kind) {
  if (!recorded) return {};
  return {kind == NormKind::layer_norm ? Tensor::empty(ctx, {x.rows()}) : Tensor(), Tensor::empty(ctx, {x.rows()})};
}

// Of y = norm(x), made from {x, weight, bias}: adds straight into the gradient of x, where the residual path has
// often left its part already. Where x is a sum, whose gradient is whole then, dsub receives that of what was added.
Backward norm_gradient(const Tensor& x, const Kernels::NormArgs& args, const Statistics& s, std::shared_ptr<Tensor> dsub = nullptr) {
  Kernels::NormArgs kept;
  kept.kind = args.kind;
  kept.weight = args.weight;
  kept.dropout = args.dropout;
  return [x = x.detach(), kept, s, dsub = std::move(dsub)](Context& ctx, const Tensor& dy, Slots& in) {
    Kernels::NormGradients out;
    if (in[0].needed()) {
      auto [dx, accumulate] = in[0].target(ctx);
      out.dx = dx, out.accumulate_dx = accumulate;
    }
    // A parameter's gradient is in memory of its own, and still to be added, where it cannot be written in place.
    const bool apart = distinct(in);
    const auto begin = [&](GradientSlot& slot, Tensor& gradient, bool& adds) {
      if (!slot.needed()) return false;
      if (!apart || slot.dtype() != DType::float32) return gradient = Tensor::empty(ctx, {x.cols()}), true;
      const auto [target, accumulate] = slot.target(ctx);
      gradient = target, adds = accumulate;
      return false;
    };
    const bool own_dweight = begin(in[1], out.dweight, out.accumulate_dweight), own_dbias = begin(in[2], out.dbias, out.accumulate_dbias);
    if (dsub && in[0].needed()) {
      *dsub = Tensor::like(ctx, x);
      kernels(ctx).add_norm_backward(ctx, x, kept, s.mean, s.rstd, dy, out, *dsub);
    } else {
      kernels(ctx).norm_backward(ctx, x, kept, s.mean, s.rstd, dy, out);
    }
    if (own_dweight) in[1].add(ctx, out.dweight);
    if (own_dbias) in[2].add(ctx, out.dbias);
  };
}

// Of sum = x + dropout(sub), made from {x, sub}. dsub: the gradient of sub, where the norm of the sum has made it.
Backward sum_gradient(const DropoutArgs& dropout, std::shared_ptr<Tensor> dsub = nullptr) {
  return [dropout, made = std::move(dsub)](Context& ctx, const Tensor& dsum, Slots& in) {
    in[0].add(ctx, dsum);
    if (!in[1].needed()) return;
    if (dropout.p == 0.0F) return in[1].add(ctx, dsum);
    Tensor dsub = made ? std::move(*made) : Tensor();
    if (!dsub.defined()) {
      dsub = Tensor::like(ctx, dsum);
      kernels(ctx).dropout(ctx, dsum, dropout, dsub);  // the same mask, drawn again
    }
    in[1].add(ctx, dsub);
  };
}

}  // namespace

Tensor norm(Context& ctx, const Tensor& x, const NormOptions& options) {
  const Kernels::NormArgs args = checked_norm(ctx, "norm", x, options);
  Statistics s = statistics(ctx, records(ctx, {x, options.weight, options.bias}), x, args.kind);
  Tensor y = Tensor::like(ctx, x), no_sum;
  kernels(ctx).norm(ctx, x, args, no_sum, y, s.mean, s.rstd);
  return record(ctx, y, {x, options.weight, options.bias}, norm_gradient(x, args, s));
}

Tensor layer_norm(Context& ctx, const Tensor& x, const Tensor& weight, const Tensor& bias, float eps) {
  return norm(ctx, x, {.kind = NormKind::layer_norm, .weight = weight, .bias = bias, .eps = eps});
}

Tensor rms_norm(Context& ctx, const Tensor& x, const Tensor& weight, float eps) {
  return norm(ctx, x, {.kind = NormKind::rms_norm, .weight = weight, .bias = {}, .eps = eps});
}

AddNorm add_norm(Context& ctx, const Tensor& x, const Tensor& sub, const NormOptions& options, float dropout) {
  Kernels::NormArgs args = checked_norm(ctx, "add_norm", x, options);
  args.dropout = checked_dropout(ctx, "add_norm", x, sub, dropout);
  args.sub = sub.detach();
  Statistics s = statistics(ctx, records(ctx, {x, sub, options.weight, options.bias}), x, args.kind);
  Tensor sum = Tensor::like(ctx, x), y = Tensor::like(ctx, x);
  kernels(ctx).norm(ctx, x, args, sum, y, s.mean, s.rstd);
  // Whatever else reads the sum is recorded later: the gradient of the norm is the last to be added to that of the sum, and so the
  // same pass makes that of sub.
  const auto dsub = args.dropout.p > 0.0F && has_gradient(sub) ? std::make_shared<Tensor>() : nullptr;
  sum = record(ctx, sum, {x, sub}, sum_gradient(args.dropout, dsub));
  return {sum, record(ctx, y, {sum, options.weight, options.bias}, norm_gradient(sum, args, s, dsub))};
}

Tensor add_dropout(Context& ctx, const Tensor& x, const Tensor& sub, float dropout) {
  Kernels::NormArgs args;
  args.dropout = checked_dropout(ctx, "add_dropout", x, sub, dropout);
  args.sub = sub.detach();
  Tensor sum = Tensor::like(ctx, x), none;
  kernels(ctx).norm(ctx, x, args, sum, none, none, none);  // no y: the sum alone
  return record(ctx, sum, {x, sub}, sum_gradient(args.dropout));
}

}  // namespace transformer
