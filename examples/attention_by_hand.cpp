// Scaled dot-product attention, step by step, on matrices small enough to check with a pencil.
#include <cstdio>
#include <string>

#include "transformer/transformer.h"

using namespace transformer;

static void show(const char* step, const Tensor& t) {
  std::printf("%s  %s\n", step, t.shape().str().c_str());
  const auto values = t.to_vector<float>();
  for (std::int64_t i = 0; i < t.numel(); ++i)
    std::printf("%s%7.4g%s", i % t.cols() == 0 ? "   " : " ", values[static_cast<std::size_t>(i)], (i + 1) % t.cols() == 0 ? "\n" : "");
}

int main() {
  Context ctx;
  // Three tokens, d_k = 4: what each token asks (Q), offers (K) and says (V).
  const Tensor q = Tensor::from<float>(ctx, {3, 4}, {1, 0, 1, 0, /**/ 0, 1, 0, 1, /**/ 1, 1, 0, 0});
  const Tensor k = Tensor::from<float>(ctx, {3, 4}, {1, 1, 0, 0, /**/ 0, 0, 1, 1, /**/ 1, 0, 1, 0});
  const Tensor v = Tensor::from<float>(ctx, {3, 4}, {1, 2, 3, 4, /**/ 5, 6, 7, 8, /**/ 9, 10, 11, 12});
  show("Q", q), show("K", k), show("V", v);

  const Tensor scores = matmul(ctx, q, k, false, true);
  show("scores = Q Kᵀ: how well each query fits each key", scores);
  const Tensor scaled = scale(ctx, scores, 0.5F);
  show("scaled by 1/√d_k = 1/2", scaled);
  const Tensor weights = softmax(ctx, scaled);
  show("weights = softmax of each row: they sum to 1", weights);
  const Tensor output = matmul(ctx, weights, v);
  show("output = weights · V: each token's mixture of what the others say", output);

  // The same with a causal mask: a token sees only itself and those before it. The fused op does all steps at once.
  Tensor causal_weights;
  const Tensor causal = attention(ctx, q, k, v,
                                  {.queries = Sequences::uniform(1, 3),
                                   .keys = Sequences::uniform(1, 3),
                                   .heads = 1,
                                   .head_dim = 4,
                                   .causal = true,
                                   .weights = &causal_weights});
  show("causal weights [sequences, heads, queries, keys]", causal_weights);
  show("causal output", causal);

  // Heads: 512 dimensions are 8 heads of 64, each with an attention of its own, then put side by side again.
  const Tensor x = random_normal(ctx, {10, 512});
  const Tensor heads = permute(ctx, reshape(ctx, x, {10, 8, 64}), {1, 0, 2});
  std::printf("10 tokens %s → split %s → one matrix per head %s → concat %s\n", x.shape().str().c_str(), "[10, 8, 64]",
              heads.shape().str().c_str(), reshape(ctx, permute(ctx, heads, {1, 0, 2}), {10, 512}).shape().str().c_str());
}
