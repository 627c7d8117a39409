#include "transformer/ops/batch_norm.h"

#include "backend/kernels.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

void check(Context& ctx, const Tensor& x, const BatchNormOptions& o) {
  check_float(ctx, "batch_norm", "x", x);
  if (x.rank() == 0) fail("batch_norm", "x must have a last dimension of features, got shape {}", x.shape());
  auto check_vector = [&](std::string_view name, const Tensor& t, bool master) {
    check_float(ctx, "batch_norm", name, t);
    if (t.shape() != Shape{x.cols()}) fail("batch_norm", "{} {} does not fit x {}: expected [{}]", name, t.shape(), x.shape(), x.cols());
    if (t.dtype() != DType::float32 && (master || t.dtype() != x.dtype()))
      fail("batch_norm", "{} is {}, expected float32{}", name, t.dtype(), master ? "" : " or the dtype of x");
  };
  if (o.weight.defined()) check_vector("weight", o.weight, false);
  if (o.bias.defined()) check_vector("bias", o.bias, false);
  check_vector("running_mean", o.running_mean, true);
  check_vector("running_variance", o.running_variance, true);
  if (o.batches.defined() && (o.batches.shape() != Shape{1} || o.batches.dtype() != DType::float32))
    fail("batch_norm", "batches is {} {}, expected [1] float32", o.batches.shape(), o.batches.dtype());
  if (!(o.eps >= 0.0F)) fail("batch_norm", "eps must be 0 or more, got {}", o.eps);
  if (!(o.momentum >= 0.0F && o.momentum <= 1.0F)) fail("batch_norm", "momentum must be in [0, 1], got {}", o.momentum);
  if (ctx.training() && x.rows() < 2)
    fail("batch_norm", "x {} has {} rows: statistics of a batch need two or more; train with more samples per batch", x.shape(), x.rows());
}

// running ← (1 - momentum)·running + momentum·factor·value
void follow(Context& ctx, Tensor running, const Tensor& value, float momentum, float factor) {
  Tensor part = Tensor::like(ctx, value);
  kernels(ctx).scale(ctx, momentum * factor, value, part);
  kernels(ctx).scale(ctx, 1.0F - momentum, running, running);
  kernels(ctx).add_to(ctx, part, running);
}

// 1/√(variance + eps)
Tensor deviation_inverse(Context& ctx, const Tensor& variance, float eps) {
  Tensor r = Tensor::like(ctx, variance);
  kernels(ctx).binary(ctx, Binary::add, variance, Tensor::full(ctx, {1}, eps), r);
  kernels(ctx).unary(ctx, Unary::rsqrt, r, r);
  return r;
}

}  // namespace

Tensor batch_norm(Context& ctx, const Tensor& x, const BatchNormOptions& o) {
  check(ctx, x, o);
  const bool of_batch = ctx.training();
  Kernels::BatchNormArgs args;
  if (o.weight.defined()) args.weight = cast(ctx, o.weight.detach(), DType::float32);
  if (o.bias.defined()) args.bias = cast(ctx, o.bias.detach(), DType::float32);
  Tensor variance = o.running_variance;
  if (of_batch) {
    args.mean = Tensor::empty(ctx, {x.cols()});
    variance = Tensor::empty(ctx, {x.cols()});
    kernels(ctx).batch_statistics(ctx, x, args.mean, variance);
    const auto n = static_cast<float>(x.rows());
    follow(ctx, o.running_mean, args.mean, o.momentum, 1.0F);
    follow(ctx, o.running_variance, variance, o.momentum, n / (n - 1.0F));
    if (Tensor batches = o.batches; batches.defined()) kernels(ctx).add_to(ctx, Tensor::full(ctx, {1}, 1.0F), batches);
  } else if (records(ctx, {x, o.weight, o.bias})) {
    args.mean = Tensor::like(ctx, o.running_mean);  // a copy: the running one may move before backward
    kernels(ctx).copy(ctx, o.running_mean, args.mean);
  } else {
    args.mean = o.running_mean;
  }
  args.rstd = deviation_inverse(ctx, variance, o.eps);
  Tensor y = Tensor::like(ctx, x);
  kernels(ctx).batch_norm(ctx, x, args, y);
  args.bias = {};  // backward does not need it
  return record(ctx, y, {x, o.weight, o.bias}, [x = x.detach(), args, of_batch](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dx, dweight = Tensor::empty(ctx, {x.cols()}), dbias = Tensor::empty(ctx, {x.cols()});
    bool accumulate = false;
    if (in[0].needed()) {
      auto [target, adds] = in[0].target(ctx);
      dx = target;
      accumulate = adds;
    }
    kernels(ctx).batch_norm_backward(ctx, x, args, of_batch, dy, dx, accumulate, dweight, dbias);
    if (in[1].needed()) in[1].add(ctx, dweight);
    if (in[2].needed()) in[2].add(ctx, dbias);
  });
}

}  // namespace transformer
