#include "transformer/ops/attention.h"

#include "ops/attention_reference.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

std::vector<Input> inputs_of(const AttentionCase& c) {
  const std::int64_t nq = c.q().total(), nk = c.k().total(), d = c.head_dim;
  std::vector<Input> in;
  if (c.form == Form::self) in = {{.shape = {nq, (c.heads + 2 * c.kv()) * d}}};
  if (c.form == Form::cross) in = {{.shape = {nq, c.heads * d}}, {.shape = {nk, 2 * c.kv() * d}}};
  if (c.form == Form::separate) in = {{.shape = {nq, c.heads * d}}, {.shape = {nk, c.kv() * d}}, {.shape = {nk, c.kv() * d}}};
  if (c.bias) in.push_back({.shape = *c.bias, .master = true});
  if (c.relative > 0) in.push_back({.shape = {c.heads, 2 * c.relative - 1}, .master = true});
  return in;
}

Tensor call(Context& ctx, const AttentionCase& c, const Tensors& in, const Tensor& mask = {}, Tensor* weights = nullptr) {
  AttentionOptions options = c.options();
  const std::size_t tensors = c.form == Form::self ? 1 : c.form == Form::cross ? 2 : 3;
  if (c.bias) options.bias = in[tensors];
  if (mask.defined()) options.bias = mask;
  if (c.relative > 0) options.relative_bias = in[tensors + (c.bias ? 1 : 0)];
  options.weights = weights;
  ctx.set_training(c.dropout > 0.0F);
  if (c.form == Form::self) return self_attention(ctx, in[0], options);
  if (c.form == Form::cross) return cross_attention(ctx, in[0], in[1], options);
  return attention(ctx, in[0], in[1], in[2], options);
}

void check(const AttentionCase& c) {
  check_op(
      {.name = c.name,
       .inputs = inputs_of(c),
       .tolerance = c.tolerance,
       .differences = c.differences,
       .context = {.seed = c.dropout > 0.0F ? 5U : 0U}},
      [&](Context& ctx, const Tensors& in) { return call(ctx, c, in); }, [&](const auto& in) { return plain_attention(c, in); });
}

TEST(Attention, HeadDimensions) {
  for (std::int64_t d : {1, 3, 17, 64, 65})
    check({.name = "head_dim " + std::to_string(d), .queries = {5, 2}, .heads = 2, .head_dim = d, .differences = d <= 3});
}

TEST(Attention, RaggedLengths) {
  check({.name = "self", .queries = {3, 0, 17, 1, 65, 0}, .heads = 2, .head_dim = 5});
  check({.name = "cross", .form = Form::cross, .queries = {3, 1, 17, 0, 65, 2}, .keys = {1, 65, 17, 3, 0, 33}, .heads = 2, .head_dim = 5});
  check({.name = "separate", .form = Form::separate, .queries = {1, 3, 65}, .keys = {17, 0, 66}, .heads = 1, .head_dim = 3});
  check({.name = "short", .form = Form::separate, .queries = {1, 3}, .keys = {4, 2}, .heads = 2, .head_dim = 2, .differences = true});
}

TEST(Attention, Empty) {
  check({.name = "no sequences", .queries = {}, .heads = 2});
  check({.name = "no tokens", .queries = {0, 0}, .heads = 2});
  check({.name = "no keys", .form = Form::cross, .queries = {2, 3}, .keys = {0, 0}, .heads = 2});
  check({.name = "no queries", .form = Form::cross, .queries = {0, 0}, .keys = {2, 3}, .heads = 2});
}

TEST(Attention, Causal) {
  check({.name = "self", .queries = {1, 4, 17, 65, 130}, .heads = 2, .head_dim = 4, .causal = true});
  check({.name = "small", .queries = {4, 1}, .heads = 2, .head_dim = 2, .causal = true, .differences = true});
  // Queries are the last positions of longer keys; of shorter ones, the first queries see nothing.
  check({.name = "cache", .form = Form::separate, .queries = {1, 3, 7}, .keys = {9, 70, 7}, .heads = 2, .head_dim = 4, .causal = true});
  check({.name = "fewer keys", .form = Form::separate, .queries = {5, 70}, .keys = {2, 3}, .heads = 2, .head_dim = 4, .causal = true});
}

TEST(Attention, Window) {
  for (bool causal : {false, true}) {
    check({.name = "window 1", .queries = {5, 17}, .heads = 2, .causal = causal, .window = 1});
    check({.name = "window 5", .queries = {3, 17, 150}, .heads = 1, .causal = causal, .window = 5});
    check({.name = "window 70", .queries = {200}, .heads = 1, .head_dim = 2, .causal = causal, .window = 70});
    check({.name = "cache", .form = Form::separate, .queries = {2, 5}, .keys = {9, 3}, .heads = 2, .causal = causal, .window = 3});
  }
}

TEST(Attention, SharedKeyValueHeads) {
  check({.name = "self 4:2", .queries = {3, 17, 0, 70}, .heads = 4, .kv_heads = 2, .head_dim = 3, .causal = true});
  check({.name = "self 3:1", .queries = {40, 33}, .heads = 3, .kv_heads = 1, .head_dim = 3});
  check({.name = "cross 6:2",
         .form = Form::cross,
         .queries = {1, 5},
         .keys = {7, 65},
         .heads = 6,
         .kv_heads = 2,
         .head_dim = 3,
         .window = 4});
  check({.name = "small", .queries = {3}, .heads = 2, .kv_heads = 1, .head_dim = 2, .differences = true});
}

TEST(Attention, ScaleGiven) { check({.name = "scale", .queries = {5}, .heads = 2, .scale = 0.3F}); }

TEST(Attention, LearnedBias) {
  const std::int64_t s = 3, h = 4, q = 17, k = 19;
  const std::vector<Shape> shapes = {{s, h, q, k},
                                     {1, h, q, k},
                                     {s, 1, q, k},
                                     {s, h, 1, k},
                                     {s, h, q, 1},
                                     {1, 1, q, k},
                                     {s, 1, 1, k},
                                     {1, h, 1, 1},
                                     {1, 1, 1, k},
                                     {1, 1, 1, 1},
                                     {h, q, k},
                                     {h, 1, 1},
                                     {q, k},
                                     {q, 1},
                                     {k},
                                     {1},
                                     {}};
  for (const Shape& shape : shapes)
    check({.name = "bias " + shape.str(),
           .form = Form::cross,
           .queries = {q, 2, 5},
           .keys = {3, k, 0},
           .heads = h,
           .kv_heads = 2,
           .head_dim = 3,
           .bias = shape});
  check({.name = "many blocks", .queries = {130, 70}, .heads = 2, .head_dim = 3, .causal = true, .bias = Shape{1, 1, 130, 130}});
  check({.name = "small", .queries = {3, 2}, .heads = 2, .head_dim = 2, .bias = Shape{2, 3, 3}, .differences = true});
}

TEST(Attention, LearnedRelativeBias) {
  check({.name = "self", .queries = {3, 17, 0, 1}, .heads = 3, .head_dim = 3, .relative = 17});
  check({.name = "longer table", .queries = {70, 5}, .heads = 2, .head_dim = 3, .causal = true, .relative = 100});
  check({.name = "cross",
         .form = Form::separate,
         .queries = {2, 5},
         .keys = {9, 3},
         .heads = 4,
         .kv_heads = 2,
         .head_dim = 3,
         .relative = 9});
  check({.name = "with a bias", .queries = {4, 6}, .heads = 2, .head_dim = 3, .bias = Shape{2, 1, 6, 6}, .relative = 6});
  check({.name = "with a shared bias", .queries = {4, 6}, .heads = 2, .head_dim = 3, .bias = Shape{6, 6}, .relative = 6});
  check({.name = "small", .queries = {2, 3}, .heads = 2, .head_dim = 2, .relative = 3, .differences = true});
}

TEST(Attention, Dropout) {
  check({.name = "short", .queries = {5, 33, 1}, .heads = 2, .head_dim = 4, .dropout = 0.3F});
  check({.name = "long", .queries = {70, 3, 130}, .heads = 2, .head_dim = 4, .causal = true, .dropout = 0.1F});
  check({.name = "shared heads",
         .form = Form::cross,
         .queries = {5, 9},
         .keys = {20, 7},
         .heads = 4,
         .kv_heads = 2,
         .head_dim = 4,
         .dropout = 0.5F});
  check({.name = "with biases", .queries = {5, 9}, .heads = 2, .head_dim = 4, .bias = Shape{2, 9, 9}, .relative = 12, .dropout = 0.5F});
  check({.name = "small", .queries = {3, 2}, .heads = 2, .head_dim = 2, .dropout = 0.4F, .differences = true});
}

TEST(Attention, DropoutOnlyWhenTraining) {
  Context ctx;
  const AttentionCase c{.queries = {5}, .heads = 1, .head_dim = 4};
  const Input input{.shape = {5, 12}};
  const Tensor qkv = detail::make_input(ctx, input, detail::draw(input, 1), DType::float32);
  AttentionOptions options = c.options();
  const Tensor plain = self_attention(ctx, qkv, options);
  options.dropout = 0.5F;
  EXPECT_EQ(self_attention(ctx, qkv, options).to_vector<float>(), plain.to_vector<float>());
  ctx.set_training(true);
  EXPECT_NE(self_attention(ctx, qkv, options).to_vector<float>(), plain.to_vector<float>());
}

// Masks hide keys with -inf; a row with nothing left is 0 and passes no gradient.
TEST(Attention, Mask) {
  const AttentionCase c{.queries = {5, 70}, .heads = 2, .head_dim = 3};
  const Hidden hidden = [](std::int64_t s, std::int64_t h, std::int64_t i, std::int64_t j) {
    return (i == 2 && h == 0) || i == 66 || (s + i * 3 + j) % 4 == 0;
  };
  check_op(
      {.name = "mask", .inputs = inputs_of(c), .differences = false},
      [&](Context& ctx, const Tensors& in) {
    std::vector<std::uint8_t> mask;
    for (std::int64_t s = 0; s < 2; ++s)
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t i = 0; i < 70; ++i)
          for (std::int64_t j = 0; j < 70; ++j) mask.push_back(hidden(s, h, i, j) ? 0 : 1);
    return call(ctx, c, in, mask_to_bias(ctx, Tensor::from<std::uint8_t>(ctx, {2, 2, 70, 70}, mask)));
      },
      [&](const auto& in) { return plain_attention(c, in, hidden); });
}

TEST(Attention, MaskToBias) {
  Context ctx;
  const std::vector<double> want = {-INFINITY, 0.0, 0.0, -INFINITY};
  auto expect = [&](const Tensor& mask) {
    const Tensor bias = mask_to_bias(ctx, mask);
    EXPECT_EQ(bias.shape(), mask.shape());
    EXPECT_EQ(detail::to_double(bias), want);
  };
  expect(Tensor::from<std::uint8_t>(ctx, {2, 2}, std::vector<std::uint8_t>{0, 1, 255, 0}));
  expect(Tensor::from<std::int64_t>(ctx, {1, 4}, std::vector<std::int64_t>{0, 1, -3, 0}));
  expect(Tensor::from<float>(ctx, {4}, std::vector<float>{0.0F, 0.25F, -1e-30F, -0.0F}));
  EXPECT_EQ(mask_to_bias(ctx, Tensor::empty(ctx, {0, 3}, DType::int32)).numel(), 0);
  expect_error([&] { mask_to_bias(ctx, {}); }, {"mask_to_bias", "undefined"});
}

TEST(Attention, Weights) {
  for (float dropout : {0.0F, 0.25F}) {
    const AttentionCase c{.form = Form::cross,
                          .queries = {5, 100, 0, 3},
                          .keys = {7, 130, 4, 0},
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 6,
                          .dropout = dropout};
    Context ctx({.seed = dropout > 0.0F ? 5U : 0U});
    Tensors in;
    Arrays<double> plain;
    for (const Input& input : inputs_of(c)) {
      plain.emplace_back(input.shape).values = detail::rounded(detail::draw(input, 3 + plain.size()), DType::float32);
      in.push_back(detail::make_input(ctx, input, plain.back().values, DType::float32));
    }
    Tensor weights;
    std::vector<double> want;
    const Tensor out = call(ctx, c, in, {}, &weights);
    detail::compare("value", detail::to_double(out), plain_attention(c, plain, {}, &want).values, 1e-5);
    ASSERT_EQ(weights.shape(), Shape({4, 4, 100, 130}));
    EXPECT_FALSE(has_gradient(weights));
    const std::vector<double> got = detail::to_double(weights);
    detail::compare("weights", got, want, 1e-6);
    for (std::int64_t r = 0; dropout == 0.0F && r < weights.rows(); ++r) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < 130; ++j) sum += got[static_cast<std::size_t>(r * 130 + j)];
      const std::int64_t s = r / 400, i = r % 100;
      EXPECT_NEAR(sum, i < c.q().length(s) && c.k().length(s) > 0 ? 1.0 : 0.0, 1e-5);
    }
  }
}

TEST(Attention, LongSequences) {
  for (bool causal : {false, true}) {
    const AttentionCase c{.queries = {300, 97}, .heads = 2, .head_dim = 16, .causal = causal};
    Context ctx;
    Input input = inputs_of(c)[0];
    input.low = -4.0, input.high = 4.0;  // scores far apart
    Arrays<double> plain;
    plain.emplace_back(input.shape).values = detail::rounded(detail::draw(input, 2), DType::float32);
    const Tensor out = call(ctx, c, {detail::make_input(ctx, input, plain[0].values, DType::float32)});
    detail::compare("value", detail::to_double(out), plain_attention(c, plain).values, 1e-5);
  }
}

// Widths and lengths where a GPU uses other kernels than elsewhere, in every combination of options that it treats apart.
TEST(Attention, WholeTiles) {
  check({.name = "short", .queries = {48, 1, 0, 33}, .heads = 2, .head_dim = 64, .dropout = 0.1F});
  check({.name = "short cross",
         .form = Form::cross,
         .queries = {16, 33, 2},
         .keys = {48, 7, 0},
         .heads = 2,
         .head_dim = 32,
         .dropout = 0.1F});
  check({.name = "shared heads", .queries = {64, 17}, .heads = 4, .kv_heads = 2, .head_dim = 16, .causal = true, .dropout = 0.1F});
  check({.name = "wide", .queries = {65, 3}, .heads = 1, .head_dim = 128, .causal = true, .dropout = 0.1F});
  check({.name = "197", .queries = {197}, .heads = 1, .head_dim = 16});
  check({.name = "300", .queries = {300, 1}, .heads = 1, .head_dim = 8, .causal = true, .dropout = 0.1F});
  check({.name = "300 in a window", .queries = {300}, .heads = 2, .kv_heads = 1, .head_dim = 8, .causal = true, .window = 70});
  check({.name = "300 relative", .queries = {300}, .heads = 1, .head_dim = 8, .relative = 300});
  check({.name = "80", .queries = {70}, .heads = 1, .head_dim = 80, .bias = Shape{70, 70}});
}

// Column blocks of wider matrices, for inputs and for the gradient that arrives.
TEST(Attention, Views) {
  Context ctx;
  const AttentionCase c{.form = Form::separate, .queries = {4, 9}, .keys = {9, 5}, .heads = 2, .head_dim = 5};
  Tensors whole, strided;
  for (const Input& input : inputs_of(c)) {
    const Input wide{.shape = {input.shape[0], 30}};
    const Tensor t = detail::make_input(ctx, wide, detail::draw(wide, strided.size()), DType::float32).column_block(7, input.shape[1]);
    strided.push_back(t);
    whole.push_back(Tensor::from<float>(ctx, input.shape, t.to_vector<float>()));
  }
  const Input wide{.shape = {13, 20}};
  const Tensor dy = detail::make_input(ctx, wide, detail::draw(wide, 9), DType::float32).column_block(3, 10);
  auto run = [&](Tensors& in, const Tensor& dy) {
    for (Tensor& t : in) require_grad(t);
    const Tensor y = call(ctx, c, in);
    backward(ctx, y, dy);
    return y.to_vector<float>();
  };
  EXPECT_EQ(run(strided, dy), run(whole, Tensor::from<float>(ctx, dy.shape(), dy.to_vector<float>())));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(gradient(strided[i]).to_vector<float>(), gradient(whole[i]).to_vector<float>());
}

TEST(Attention, Float16) {
  Context ctx;
  const AttentionCase c{.queries = {5, 20}, .heads = 2, .head_dim = 7};
  const Input input = inputs_of(c)[0];
  std::vector<float16> values;
  Arrays<double> plain;
  plain.emplace_back(input.shape);
  for (double v : detail::draw(input, 1)) values.emplace_back(static_cast<float>(v));
  for (std::size_t i = 0; i < values.size(); ++i) plain[0].values[i] = static_cast<float>(values[i]);
  Tensor qkv = Tensor::from<float16>(ctx, input.shape, values);
  require_grad(qkv);
  const Tensor out = call(ctx, c, {qkv});
  EXPECT_EQ(out.dtype(), DType::float16);
  detail::compare("value", detail::to_double(out), plain_attention(c, plain).values, 1e-3);
  backward(ctx, out, Tensor::full(ctx, out.shape(), 1.0F, DType::float16));
  EXPECT_EQ(gradient(qkv).dtype(), DType::float16);
}

// Gradients of only some inputs are the same numbers as of all.
TEST(Attention, SomeGradients) {
  Context ctx;
  const AttentionCase c{.form = Form::separate, .queries = {4, 9}, .keys = {9, 5}, .heads = 2, .head_dim = 5, .relative = 9};
  const std::vector<Input> inputs = inputs_of(c);
  auto run = [&](const std::vector<bool>& wanted) {
    Tensors in;
    for (const Input& input : inputs) in.push_back(detail::make_input(ctx, input, detail::draw(input, in.size()), DType::float32));
    for (std::size_t i = 0; i < in.size(); ++i)
      if (wanted[i]) require_grad(in[i]);
    const Tensor y = call(ctx, c, in);
    backward(ctx, y, Tensor::full(ctx, y.shape(), 0.5F));
    return in;
  };
  const Tensors all = run({true, true, true, true});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<bool> wanted(inputs.size(), false);
    wanted[i] = true;
    EXPECT_EQ(gradient(run(wanted)[i]).to_vector<float>(), gradient(all[i]).to_vector<float>());
  }
}

// The same bits for any number of threads: many groups, few long ones, shared biases.
TEST(Attention, Threads) {
  const std::vector<AttentionCase> cases = {
      {.name = "many", .queries = {33, 20, 64, 7}, .heads = 4, .head_dim = 16, .dropout = 0.1F},
      {.name = "one long", .queries = {300}, .heads = 1, .head_dim = 16, .causal = true, .dropout = 0.1F},
      {.name = "one much longer", .queries = {10, 250, 10}, .heads = 2, .kv_heads = 1, .head_dim = 16},
      {.name = "shared bias", .queries = {100, 60}, .heads = 4, .kv_heads = 2, .head_dim = 16, .bias = Shape{100, 100}, .relative = 100},
      {.name = "bias of sequences", .queries = {100, 60}, .heads = 4, .head_dim = 16, .bias = Shape{2, 1, 100, 100}},
  };
  for (const AttentionCase& c : cases) {
    SCOPED_TRACE(c.name);
    std::vector<std::vector<float>> want;
    for (int threads : {1, 2, 3, 5}) {
      Context ctx({.threads = threads, .seed = 5});
      Tensors in;
      for (const Input& input : inputs_of(c)) {
        in.push_back(detail::make_input(ctx, input, detail::draw(input, in.size()), DType::float32));
        require_grad(in.back());
      }
      const Tensor y = call(ctx, c, in);
      const Input dy{.shape = y.shape()};
      backward(ctx, y, detail::make_input(ctx, dy, detail::draw(dy, 8), DType::float32));
      std::vector<std::vector<float>> got = {y.to_vector<float>()};
      for (const Tensor& t : in) got.push_back(gradient(t).to_vector<float>());
      if (threads == 1) want = got;
      EXPECT_EQ(got, want) << threads << " threads";
    }
  }
}

TEST(Attention, Errors) {
  Context ctx;
  const Tensor q = Tensor::zeros(ctx, {5, 8}), kv = Tensor::zeros(ctx, {6, 16}), k = Tensor::zeros(ctx, {6, 8});
  auto options = [](auto change) {
    AttentionOptions o{.queries = Sequences(Lengths{2, 3}), .keys = Sequences(Lengths{4, 2}), .heads = 2, .head_dim = 4};
    change(o);
    return o;
  };
  auto fails = [&](auto change, const std::vector<std::string>& parts) {
    expect_error([&] { attention(ctx, q, k, k, options(change)); }, parts);
  };
  auto none = [](AttentionOptions&) {};
  EXPECT_NO_THROW(attention(ctx, q, k, k, options(none)));
  fails([](auto& o) { o.heads = 3; }, {"attention", "[5, 8]", "[5, 12]"});
  fails([](auto& o) { o.heads = 0; }, {"0 heads"});
  fails([](auto& o) { o.head_dim = 0; }, {"0 dimensions"});
  fails([](auto& o) { o.heads = 3, o.kv_heads = 2; }, {"3 heads", "2 key-value heads"});
  fails([](auto& o) { o.window = -1; }, {"window", "-1"});
  fails([](auto& o) { o.dropout = 1.0F; }, {"dropout", "[0, 1)"});
  fails([](auto& o) { o.keys = Sequences(Lengths{6}); }, {"2 sequences", "1 of keys"});
  fails([](auto& o) { o.queries = Sequences(Lengths{2, 2}); }, {"q [5, 8]", "5 tokens", "4"});
  fails([](auto& o) { o.keys = Sequences(Lengths{2, 2}); }, {"k [6, 8]", "6 tokens", "4"});
  fails([&](auto& o) { o.bias = Tensor::zeros(ctx, {3, 3}); }, {"bias [3, 3]", "[2, 2, 3, 4]"});
  fails([&](auto& o) { o.bias = Tensor::zeros(ctx, {1, 2, 2, 3, 4}); }, {"bias [1, 2, 2, 3, 4]"});
  fails([&](auto& o) { o.bias = Tensor::zeros(ctx, {3, 4}, DType::bfloat16); }, {"bias", "bfloat16", "float32"});
  fails([&](auto& o) { o.relative_bias = Tensor::zeros(ctx, {2, 5}); }, {"relative_bias", "[2, 5]", "L of 4"});
  fails([&](auto& o) { o.relative_bias = Tensor::zeros(ctx, {1, 7}); }, {"relative_bias", "[1, 7]"});
  fails([&](auto& o) { o.relative_bias = Tensor::zeros(ctx, {2, 8}); }, {"relative_bias", "[2, 8]"});
  expect_error([&] { attention(ctx, {}, k, k, options(none)); }, {"attention", "q is undefined"});
  expect_error(
      [&] {
    attention(ctx, q, k, Tensor::zeros(ctx, {6, 8}, DType::bfloat16), options(none));
      },
      {"q [5, 8] is float32", "v [6, 8] is bfloat16"});
  expect_error([&] { attention(ctx, q, k, Tensor::zeros(ctx, {6, 8}, DType::int32), options(none)); }, {"v", "int32"});
  expect_error([&] { cross_attention(ctx, q, k, options(none)); }, {"cross_attention", "kv", "[6, 16]"});
  expect_error([&] { self_attention(ctx, q, options(none)); }, {"self_attention", "qkv", "[5, 24]"});
  EXPECT_NO_THROW(cross_attention(ctx, q, kv, options(none)));
}

}  // namespace
}  // namespace transformer::test
