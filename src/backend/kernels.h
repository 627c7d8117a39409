#pragma once
// What a device must be able to compute: one virtual function per kernel, grouped by op. Ops check shapes and
// allocate results; kernels trust them. Every kernel takes float32, bfloat16 and float16 tensors unless it
// says otherwise, computes in float32, and follows row strides (Tensor::row_stride) on every operand that is
// described as rows. A kernel a device does not have throws Error naming itself and the device.

#include <algorithm>
#include <cstdint>
#include <span>

#include "transformer/core/context.h"
#include "transformer/core/random.h"
#include "transformer/core/sequences.h"
#include "transformer/core/step_state.h"
#include "transformer/core/tensor.h"
#include "transformer/core/types.h"

namespace transformer {

enum class Unary : std::uint8_t { relu, gelu, gelu_tanh, silu, tanh, sigmoid, exp, log, sqrt, rsqrt, square, abs, neg, sin, cos };
Unary unary_of(Activation activation);  // Error for none, which is not a function to compute
enum class Binary : std::uint8_t { add, sub, mul, div, max, min };
enum class Reduction : std::uint8_t { sum, mean, max };

// c = activation(alpha · op(a) · op(b) + bias), or c += alpha · op(a) · op(b)
struct MatmulArgs {
  bool transpose_a = false, transpose_b = false;  // a is [K, M] / b is [N, K] in memory
  bool accumulate = false;                        // add to c; not together with bias or activation
  float alpha = 1.0F;
  Tensor bias = {};  // [N], float32 or c's dtype; may be undefined
  Activation activation = Activation::none;
};

// Dropout with probability p of zero; the kept values are scaled by 1/(1-p). p == 0: none.
struct DropoutArgs {
  float p = 0.0F;
  RandomStream stream = {};
};

struct AttentionArgs {
  // Same count; keys longer than queries: the queries are the last positions. Keys may have gaps or be scattered (forward only).
  Sequences queries = {}, keys = {};
  std::int64_t heads = 1, kv_heads = 1, head_dim = 1;
  float scale = 1.0F;
  bool causal = false;        // query i of n sees keys j ≤ i + (keys - queries)
  std::int64_t window = 0;    // > 0: and j > i + (keys - queries) - window; if not causal, |distance| < window
  Tensor bias = {};           // float32, broadcasts to [sequences, heads, longest q, longest k]; -inf masks
  Tensor relative_bias = {};  // float32 [heads, 2·L-1], added at column (key pos - query pos) + L-1, L ≥ longest
  DropoutArgs dropout = {};   // element ((s·heads + h)·longest_q + i)·dropout_row() + j

  // Whole groups of 64, so that a block of random numbers belongs to one row and a GPU's matrix fragment needs no other.
  std::int64_t dropout_row() const { return (keys.longest() + 63) / 64 * 64; }
};

// Everything one fused optimizer step needs about parameters that lie one after the other (train/arena.h), or one alone. All float32
// and contiguous but low_precision.
struct AdamSlot {
  Tensor weight, gradient, m, v;
  Tensor low_precision;  // bfloat16 copy to refresh, may be undefined
  float weight_decay = 0.0F;
};

struct AdamArgs {
  float beta1, beta2, eps;
  float max_norm;  // of all gradients together: larger ones are scaled to it; 0: none is
  bool decoupled;  // AdamW (decay the weight) or Adam with L2 (decay the gradient)
};

// What the gradients are multiplied by, as torch.nn.utils.clip_grad_norm_ has it.
inline float clipping(double norm, float max_norm) {
  return max_norm > 0.0F ? static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6))) : 1.0F;
}

class Kernels : public Backend {
 public:
  // --- memory ---------------------------------------------------------------------------------------
  virtual void fill(Context& ctx, float value, Tensor& y);
  // y = x, converting between any two dtypes; same number of rows and columns, both row-strided.
  virtual void copy(Context& ctx, const Tensor& x, Tensor& y);
  // y += x, any two float dtypes, rows.
  virtual void add_to(Context& ctx, const Tensor& x, Tensor& y);
  // y[i…] (+)= x[i…] over `extent`, both addressed by strides in elements from their first element (0 repeats).
  // Same dtype (any, when not accumulating). Transpose, slice, concat and broadcast are all this.
  virtual void strided_copy(Context& ctx, const Shape& extent, const Tensor& x, std::int64_t x_offset, const Shape& x_strides, Tensor& y,
                            std::int64_t y_offset, const Shape& y_strides, bool accumulate);
  // y[to[i]] = x[from[i]] for rows, same dtype. The rows written are distinct and, where x and y share memory, none is read.
  virtual void copy_rows(Context& ctx, const Tensor& x, std::span<const std::int64_t> from, Tensor& y, std::span<const std::int64_t> to);
  // y[to[i]] = x[i] for rows, same dtype; to: int32 [rows of x], in the device's memory. The rows written are distinct.
  virtual void put_rows(Context& ctx, const Tensor& x, const Tensor& to, Tensor& y);

  // --- random ---------------------------------------------------------------------------------------
  virtual void uniform(Context& ctx, RandomStream stream, float low, float high, Tensor& y);       // float32
  virtual void normal(Context& ctx, RandomStream stream, float mean, float deviation, Tensor& y);  // float32
  virtual void dropout(Context& ctx, const Tensor& x, const DropoutArgs& args, Tensor& y);         // its own backward, on dy

  // --- matmul: a [batch, M, K] or [M, K], b [batch or 1, K, N] or [K, N], c [batch, M, N] -------------------
  // a and b of one dtype, c of that dtype or float32. Rows may be strided.
  virtual void matmul(Context& ctx, const Tensor& a, const Tensor& b, Tensor& c, const MatmulArgs& args);

  // --- linear: y = dropout(activation(x · weightᵀ + bias)), x [rows, in] and weight [out, in] of y's dtype ----------
  // By default composed of the kernels of this page; a device may fold bias, activation, dropout and the bias's gradient into fewer
  // passes.
  struct LinearArgs {
    Tensor bias = {};  // [out], float32 or y's dtype; may be undefined
    Activation activation = Activation::none;
    DropoutArgs dropout = {};
  };
  // kept: what backward needs of the activation. Undefined when there is none, or no backward; y itself for relu, whose output tells
  // its gradient; else rows like y, in which the device leaves what its linear_backward reads: by default the activation's input.
  virtual void linear(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, Tensor& y, Tensor& kept);
  // (+)= where accumulate says so; undefined where not needed. dweight and dbias: float32, or the dtype of the parameter.
  struct LinearGradients {
    Tensor dx = {}, dweight = {}, dbias = {};
    bool accumulate_dx = false, accumulate_dweight = false, accumulate_dbias = false;
  };
  // x is undefined where dweight is.
  virtual void linear_backward(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, const Tensor& kept,
                               const Tensor& dy, LinearGradients& out);

  // --- elementwise and reductions ---------------------------------------------------------------------
  virtual void unary(Context& ctx, Unary kind, const Tensor& x, Tensor& y);
  virtual void unary_backward(Context& ctx, Unary kind, const Tensor& x, const Tensor& dy, Tensor& dx);
  // dx = factor · dy · activation'(·): from x, the input of the activation, or for relu from its output.
  virtual void activation_backward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, float factor, Tensor& dx);
  // x [rows, 2·h] = (gate | up) → y [rows, h] = activation(gate) · up
  virtual void gated(Context& ctx, Activation kind, const Tensor& x, Tensor& y);
  virtual void gated_backward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, Tensor& dx);
  virtual void binary(Context& ctx, Binary kind, const Tensor& a, const Tensor& b, Tensor& y);  // a, b contiguous, broadcast to y
  virtual void scale(Context& ctx, float factor, const Tensor& x, Tensor& y);                   // y = factor · x
  virtual void scale_by(Context& ctx, const Tensor& factor, Tensor& x);                         // x ← factor · x, factor float32 [1]
  // Reduces x (contiguous) to y, whose shape has 1 where x is reduced; float32 result when y is float32.
  virtual void reduce(Context& ctx, Reduction kind, const Tensor& x, Tensor& y, bool accumulate);
  // y [cols] (+)= the sum over the rows of x; y float32. The gradient of a bias.
  virtual void sum_rows(Context& ctx, const Tensor& x, Tensor& y, bool accumulate);

  // --- softmax over the last dimension ------------------------------------------------------------------
  virtual void softmax(Context& ctx, const Tensor& x, bool log, Tensor& y);
  virtual void softmax_backward(Context& ctx, const Tensor& y, const Tensor& dy, bool log, Tensor& dx);
  // values float32 [rows, k], ids int32 [rows, k]: the k ≤ most_top_k largest of each row of x, or of its log-softmax; the largest first,
  // of equal ones the lower column. NaN and -inf are never among them: where there are fewer, the rest is -inf and -1.
  static constexpr std::int64_t most_top_k = 64;
  virtual void top_k(Context& ctx, const Tensor& x, std::int64_t k, bool log, Tensor& values, Tensor& ids);

  // --- norm over the last dimension, optionally of x + dropout(sub) -----------------------------------------
  struct NormArgs {
    NormKind kind = NormKind::layer_norm;
    float eps = 1e-5F;
    Tensor weight = {}, bias = {};  // [cols] float32 (or the dtype of x); may be undefined
    Tensor sub = {};                // undefined, or rows added to x before the norm
    DropoutArgs dropout = {};       // on sub
  };
  // sum (written when args.sub is given) = x + dropout(sub); y = norm(sum) · weight + bias;
  // mean, rstd: float32 [rows], for backward (mean unused by rms_norm; both may be undefined).
  // y undefined: only the sum is wanted.
  virtual void norm(Context& ctx, const Tensor& x, const NormArgs& args, Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd);
  // dx (+)= gradient for the normed tensor x; dweight, dbias float32, (+)=, undefined where not needed.
  struct NormGradients {
    Tensor dx = {}, dweight = {}, dbias = {};
    bool accumulate_dx = false, accumulate_dweight = false, accumulate_dbias = false;
  };
  virtual void norm_backward(Context& ctx, const Tensor& x, const NormArgs& args, const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                             NormGradients& out);
  // The same, and of the sum: dsub = dropout(dx), the mask that args.dropout drew. By default two passes.
  virtual void add_norm_backward(Context& ctx, const Tensor& sum, const NormArgs& args, const Tensor& mean, const Tensor& rstd,
                                 const Tensor& dy, NormGradients& out, Tensor& dsub);

  // --- norm of every column over all rows: y = (x - mean)·rstd·weight + bias --------------------------------------
  // All float32 [cols]; weight and bias may be undefined.
  struct BatchNormArgs {
    Tensor mean = {}, rstd = {}, weight = {}, bias = {};
  };
  virtual void batch_statistics(Context& ctx, const Tensor& x, Tensor& mean, Tensor& variance);  // of each column; divided by rows
  virtual void batch_norm(Context& ctx, const Tensor& x, const BatchNormArgs& args, Tensor& y);
  // dweight and dbias are overwritten, float32; dx (+)=, or undefined. of_batch: mean and rstd are those of x, and pass gradients.
  virtual void batch_norm_backward(Context& ctx, const Tensor& x, const BatchNormArgs& args, bool of_batch, const Tensor& dy, Tensor& dx,
                                   bool accumulate, Tensor& dweight, Tensor& dbias);

  // --- embedding: ids int32/int64, checked to be in range by the kernel (Error names the first bad one) --------
  virtual void embedding(Context& ctx, const Tensor& ids, const Tensor& table, float scale, Tensor& y);
  // dtable[id] += scale · dy, row by row in a fixed order, but for rows whose id is `padding` (-1: none is left out); the dtable is
  // zeroed first unless accumulate.
  virtual void embedding_backward(Context& ctx, const Tensor& ids, const Tensor& dy, float scale, std::int64_t padding, Tensor& dtable,
                                  bool accumulate);

  // --- rotary positions: x [tokens, cols]; the first heads·head_dim columns are turned, the rest copied --------
  // cos, sin: float32 [positions, rotary_dim/2]; position: int32 [tokens] row of the table for each token.
  struct RopeArgs {
    std::int64_t heads = 1, head_dim = 1, rotary_dim = 1;  // the first rotary_dim of each head are turned
    RopePairs pairs = RopePairs::half_split;
    bool inverse = false;  // turn back: the gradient
    Tensor cos = {}, sin = {}, position = {};
  };
  virtual void rope(Context& ctx, const Tensor& x, const RopeArgs& args, Tensor& y);

  // --- attention: q [q tokens, heads·head_dim], k and v [k tokens, kv_heads·head_dim], all rows --------------
  // out like q; lse: float32 [heads, q tokens], log of the sum of exponentials of each score row (-inf: all masked).
  // weights: undefined, or float32 [sequences, heads, longest q, longest k], the weights after dropout, zero padded.
  virtual void attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, Tensor& out,
                         Tensor& lse, Tensor& weights);
  // dq, dk, dv are overwritten; dbias (shape of args.bias) and drelative_bias are added to, undefined where not needed.
  virtual void attention_backward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args,
                                  const Tensor& out, const Tensor& lse, const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv,
                                  Tensor& dbias, Tensor& drelative_bias);

  // --- cross-entropy of a block of logits --------------------------------------------------------------------
  // Room for the logits of `rows` rows, or of fewer when the device would rather have them in portions: [rows or fewer, classes or more].
  // Columns beyond the classes are there for the products' sake. By default a multiple of 64 rows within 32 MB, and the classes.
  virtual Tensor logits_room(Context& ctx, std::int64_t rows, std::int64_t classes, DType dtype);
  // count, int64 [1]: the targets that are not `ignore`; the others must be in [0, classes) (Error names the op and the first that
  // is not).
  virtual void count_targets(Context& ctx, std::string_view op, const Tensor& targets, std::int64_t ignore, std::int64_t classes,
                             Tensor& count);
  // For each row with target t ≠ ignore: loss = lse - (1-ε)·z_t - ε·mean(z); logits are overwritten with their gradient, divided by
  // `count` where that is defined and not 0, when want_gradient. losses: float32 [rows], 0 for ignored rows.
  virtual void cross_entropy(Context& ctx, Tensor& logits, const Tensor& targets, std::int64_t ignore, float smoothing, bool want_gradient,
                             const Tensor& count, Tensor& losses);
  // loss, float32 [1]: the sum of the losses, divided by `count` where that is defined and not 0.
  virtual void total_loss(Context& ctx, const Tensor& losses, const Tensor& count, Tensor& loss);

  // --- patches: images [n, c, h, w] → [n · (h/p_h) · (w/p_w), c · p_h · p_w]; series are [n, 1, 1, length] with stride --
  struct PatchArgs {
    std::int64_t height = 1, width = 1, stride_y = 1, stride_x = 1;
  };
  virtual void patchify(Context& ctx, const Tensor& x, const PatchArgs& args, Tensor& y);
  virtual void patchify_backward(Context& ctx, const Tensor& dy, const PatchArgs& args, Tensor& dx);  // overwrites dx

  // --- optimizer ---------------------------------------------------------------------------------------------
  // `state`: uint8 [sizeof(StepState)]. It takes over `begun`, all but its updates.
  virtual void begin_step(Context& ctx, const StepState& begun, Tensor& state);
  virtual void add_loss(Context& ctx, const Tensor& loss, double weight, Tensor& state);       // loss: float32 [1]
  virtual void gradient_norm(Context& ctx, std::span<const Tensor> gradients, Tensor& state);  // float32 tensors
  // Of several processes: the state's norm becomes its square, so that loss and it may be summed; and back, of the sums.
  virtual void share_step(Context& ctx, Tensor& state);
  virtual void whole_step(Context& ctx, Tensor& state);
  // Nothing if loss or norm is not finite; else counts the update, clips and steps by the state's learning rate.
  virtual void adam(Context& ctx, std::span<AdamSlot> slots, const AdamArgs& args, Tensor& state);
  // Of an update that was not skipped: mean ← keep·mean + (1-keep)·x. Of one that was: x ← before. float32, one for one.
  virtual void blend(Context& ctx, std::span<Tensor> means, float keep, std::span<const Tensor> xs, const Tensor& state);
  virtual void undo_if_skipped(Context& ctx, std::span<const Tensor> before, std::span<Tensor> xs, const Tensor& state);
  virtual double sum_of_squares(Context& ctx, std::span<const Tensor> tensors);  // float32 tensors; waits

 protected:
  // Throws Error naming the kernel and the device.
  [[noreturn]] void unsupported(const char* kernel) const { fail(kernel, "the device {} has no such kernel", device_name()); }
  virtual const char* device_name() const = 0;
};

// The kernels of the context's device.
inline Kernels& kernels(Context& ctx) { return static_cast<Kernels&>(ctx.backend()); }

std::shared_ptr<Kernels> make_cpu_kernels();
std::shared_ptr<Kernels> make_guarded_kernels();
std::shared_ptr<Kernels> make_cuda_kernels(int device);  // backend/no_cuda throws Error where CUDA is not built in
int cuda_devices();                                      // usable GPUs

}  // namespace transformer
