#include "transformer/models/vit.h"

#include <fmt/format.h>

#include "models/families.h"
#include "models/image_family.h"
#include "transformer/nn/feed_forward.h"
#include "transformer/ops/activation.h"
#include "transformer/ops/dropout.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

// One vector [1, d] for each of `batch` samples: [batch, 1, d].
Tensor repeated(Context& ctx, const Tensor& vector, std::int64_t batch) {
  return embedding(ctx, Tensor::zeros(ctx, {batch, 1}, DType::int64), vector);
}

// Token i of every sample: [batch, tokens, d] → [batch, d]
Tensor token(Context& ctx, const Tensor& x, std::int64_t i) { return reshape(ctx, slice(ctx, x, 1, i, 1), {x.dim(0), x.dim(2)}); }

}  // namespace

Vit::Vit(const VitConfig& c)
    : config(c), patches(c.channels, c.patches, c.stack.d_model), stack(c.stack), norm(c.stack.norm, c.stack.d_model, c.stack.norm_eps) {
  const std::int64_t d = c.stack.d_model, extra = c.distillation ? 2 : 1;
  const std::int64_t count = patch_count(c.height, c.patches.height, c.patches.stride_y) *
      patch_count(c.width, c.patches.width, c.patches.stride_x);
  cls_token = {.shape = {1, d}, .init = Init::normal};
  if (c.distillation) distillation_token = {.shape = {1, d}, .init = Init::normal};
  positions = {.shape = {count + extra, d}, .init = Init::normal};
  if (c.pooler > 0) pooler.emplace(d, c.pooler);
  if (c.labels > 0) classifier.emplace(d, c.labels);
  if (c.labels > 0 && c.teacher_head) teacher_classifier.emplace(d, c.labels);
}

Tensor Vit::embed(Context& ctx, const Tensor& images) const {
  if (images.rank() != 4 || images.dim(1) != config.channels || images.dim(2) != config.height || images.dim(3) != config.width)
    fail("vit", "the images are {}: this model takes [batch, {}, {}, {}]; its positions are those of that size, resize the images",
         images.shape(), config.channels, config.height, config.width);
  const std::int64_t batch = images.dim(0), d = config.stack.d_model;
  // As a convolution does: what fills no patch, at the right and below, is left out.
  const Patches& p = config.patches;
  Tensor covered = slice(ctx, images, 2, 0, config.height / p.height * p.height);
  covered = contiguous(ctx, slice(ctx, covered, 3, 0, config.width / p.width * p.width));
  std::vector<Tensor> parts{repeated(ctx, cls_token, batch)};
  if (config.distillation) parts.push_back(repeated(ctx, distillation_token, batch));
  parts.push_back(reshape(ctx, patches(ctx, covered), {batch, -1, d}));
  const Tensor x = add(ctx, concat(ctx, parts, 1), cast(ctx, positions, ctx.precision()));
  return dropout(ctx, reshape(ctx, x, {batch * tokens(), d}), config.dropout);
}

Tensor Vit::operator()(Context& ctx, const Tensor& images, StackTrace* trace) const {
  const std::int64_t batch = images.dim(0);
  const Tensor x = stack(ctx, {.x = embed(ctx, images), .sequences = Sequences::uniform(batch, tokens())}, trace);
  return reshape(ctx, norm(ctx, x), {batch, tokens(), config.stack.d_model});
}

namespace {

class VitModel final : public Model {
 public:
  const Vit& network() const { return vit_; }

  VitModel(const VitConfig& config, ProblemType problem, std::string_view prefix, bool base_alone)
      : vit_(config), problem_(problem), base_(fmt::format("{}.", prefix)), prefix_(base_alone ? "" : base_) {}

  Purpose purpose() const override { return vit_.classifier ? Purpose::image_labels : Purpose::image_vectors; }

  NamedTensors compute(Context& ctx, const NamedTensors& inputs, const RunOptions& options) const override {
    const bool labelled = vit_.classifier && !vit_.teacher_classifier;
    check_inputs(inputs, labelled ? std::vector<std::string>{"pixel_values", "labels"} : std::vector<std::string>{"pixel_values"});
    const Tensor& images = input(inputs, "pixel_values", 4);
    StackTrace trace;
    const bool traced = options.hidden_states || options.attentions;
    const Tensor x = vit_(ctx, images, traced ? &trace : nullptr);
    NamedTensors out;
    if (!vit_.classifier) {
      out["last_hidden_state"] = x;
      if (vit_.pooler) out["pooler_output"] = pooled(ctx, x);
    } else if (vit_.teacher_classifier) {
      out["cls_logits"] = (*vit_.classifier)(ctx, token(ctx, x, 0));
      out["distillation_logits"] = (*vit_.teacher_classifier)(ctx, token(ctx, x, 1));
      out["logits"] = scale(ctx, add(ctx, out["cls_logits"], out["distillation_logits"]), 0.5F);
    } else {
      out["logits"] = (*vit_.classifier)(ctx, token(ctx, x, 0));
    }
    if (labelled)
      if (const auto labels = inputs.find("labels"); labels != inputs.end())
        out["loss"] = label_loss(ctx, out["logits"], labels->second, problem_);
    for (std::size_t i = 0; options.hidden_states && i < trace.hidden_states.size(); ++i)
      out[fmt::format("hidden_states.{}", i)] = reshape(ctx, trace.hidden_states[i], x.shape());
    for (std::size_t i = 0; options.attentions && i < trace.attentions.size(); ++i)
      out[fmt::format("attentions.{}", i)] = trace.attentions[i];
    return out;
  }

  std::vector<NamedParameter> parameters() override { return transformer::parameters(vit_); }
  std::vector<NamedLinear> linears() override { return transformer::linears(vit_); }

  std::vector<Binding> bindings() override {
    const VitConfig& c = vit_.config;
    const std::int64_t d = c.stack.d_model;
    const std::string embeddings = prefix_ + "embeddings.";
    const Shape token{1, 1, d}, kernel{d, c.channels, c.patches.height, c.patches.width};
    std::vector<NameRule> rules{
        {.theirs = embeddings + "cls_token", .ours = "cls_token", .shape = token},
        {.theirs = embeddings + "distillation_token", .ours = "distillation_token", .shape = token},
        {.theirs = embeddings + "position_embeddings", .ours = "positions", .shape = Shape{1, vit_.tokens(), d}},
        {.theirs = embeddings + "patch_embeddings.projection.weight", .ours = "patches.projection.weight", .shape = kernel},
        {.theirs = embeddings + "patch_embeddings.projection.bias", .ours = "patches.projection.bias"},
        {.theirs = prefix_ + "layernorm", .ours = "norm"},
        {.theirs = prefix_ + "pooler.dense", .ours = "pooler"},
        {.theirs = c.teacher_head ? "cls_classifier" : "classifier", .ours = "classifier"},
        {.theirs = "distillation_classifier", .ours = "teacher_classifier"},
    };
    add_layer_rules(rules,
                    {.file = prefix_ + "encoder.layer.{i}.",
                     .attention = "attention.attention",
                     .now = prefix_ + "layers.{i}.",
                     .ours = "stack.layers.{i}."});
    return bind_names(parameters(), rules);
  }

  // A base model may have been saved without the pooler.
  void adapt(const Checkpoint& files) override {
    const std::string weight = "pooler.dense.weight";
    if (vit_.pooler && !files.contains(weight) && !files.contains(base_ + weight)) vit_.pooler.reset();
  }

  // A checkpoint that was made for another purpose has a head that is not used.
  LoadRules load_rules() const override {
    std::vector<std::string> others{"embeddings.mask_token"};
    if (!vit_.pooler) others.emplace_back("pooler.");
    return {.base = base_, .ignored = others};
  }

 private:
  Tensor pooled(Context& ctx, const Tensor& x) const {
    const Tensor y = (*vit_.pooler)(ctx, token(ctx, x, 0));
    return vit_.config.pooler_tanh ? tanh(ctx, y) : activate(ctx, vit_.config.pooler_activation, y);
  }

  Vit vit_;
  ProblemType problem_;
  std::string base_, prefix_;
};

std::unique_ptr<Model> make_vit_or_deit(Settings& s, const Family& family, bool distillation) {
  const std::string architecture = s.architecture(family.classes);
  const bool base = architecture.ends_with("Model");

  VitConfig c;
  c.stack = {.d_model = s.size("hidden_size", 768),
             .heads = s.size("num_attention_heads", 12),
             .head_dim = s.maybe_size("head_dim").value_or(0),
             .d_ff = s.size("intermediate_size", 3072),
             .layers = s.layers("num_hidden_layers", 12),
             .norm_place = NormPlace::pre,
             .norm_eps = s.get("layer_norm_eps", 1e-12F),
             .feed_forward = feed_forward_of(s.activation("hidden_act", "gelu"), false),
             .qkv_bias = s.get("qkv_bias", true),
             .dropout = s.get("hidden_dropout_prob", 0.0F),
             .attention_dropout = s.get("attention_probs_dropout_prob", 0.0F),
             .drop_path = s.get("drop_path_rate", 0.0F)};  // not Hugging Face's: it counts while training only
  if (c.stack.head_dim > (std::int64_t{1} << 28) / c.stack.heads) s.refuse("head_dim", "all heads together are too wide");
  c.dropout = c.stack.dropout;
  c.channels = s.size("num_channels", 3);
  const Extent image = extent(s, "image_size", 224), patch = extent(s, "patch_size", 16);
  c.height = image.height;
  c.width = image.width;
  c.patches = {patch.height, patch.width};
  check_patches(s, c.channels, image, patch);
  c.distillation = distillation;
  const std::string pooler_act = s.get("pooler_act", "tanh");
  c.pooler_tanh = pooler_act == "tanh";
  if (!c.pooler_tanh) c.pooler_activation = s.activation_named("pooler_act", pooler_act);
  const std::int64_t pooler = s.maybe_size("pooler_output_size").value_or(c.stack.d_model);
  if (base) c.pooler = pooler;
  else c.labels = s.labels();
  c.teacher_head = architecture.ends_with("WithTeacher");
  s.neutral({"encoder_stride"});  // of a head for masked images
  return std::make_unique<VitModel>(c, problem_type(s), family.model_type, base);
}

std::unique_ptr<Model> make_vit(Settings& s) { return make_vit_or_deit(s, families::vit, false); }
std::unique_ptr<Model> make_deit(Settings& s) { return make_vit_or_deit(s, families::deit, true); }

}  // namespace

const Vit* vit_of(const Model& model) {
  const auto* vit = dynamic_cast<const VitModel*>(&model);
  return vit != nullptr ? &vit->network() : nullptr;
}

const Family families::vit{.model_type = "vit",
                           .make = make_vit,
                           .classes = {"ViTForImageClassification", "ViTModel"},
                           .dropout = {.all = {"hidden_dropout_prob"}, .attention = {"attention_probs_dropout_prob"}},
                           .lora_targets = {"q_proj", "v_proj"}};
const Family families::deit{.model_type = "deit",
                            .make = make_deit,
                            .classes = {"DeiTForImageClassification", "DeiTModel", "DeiTForImageClassificationWithTeacher"},
                            .dropout = {.all = {"hidden_dropout_prob"}, .attention = {"attention_probs_dropout_prob"}},
                            .lora_targets = {"q_proj", "v_proj"}};

}  // namespace transformer
