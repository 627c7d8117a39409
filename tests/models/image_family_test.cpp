// What the golden cases do not show of ViT, DeiT and Swin: windows, what is refused, names.
#include "models/fresh_model.h"
#include "support/change.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "transformer/autograd/autograd.h"
#include "transformer/models/model.h"
#include "transformer/models/swin.h"
#include "transformer/models/vit.h"
#include "transformer/ops/random.h"

namespace transformer::test {
namespace {

using nlohmann::json;

const json vit{{"model_type", "vit"},     {"hidden_size", 16}, {"num_hidden_layers", 1}, {"num_attention_heads", 2},
               {"intermediate_size", 24}, {"image_size", 8},   {"patch_size", 4},        {"num_labels", 3}};
const json swin{{"model_type", "swin"}, {"embed_dim", 8},  {"depths", {2, 1}}, {"num_heads", {2, 2}},
                {"window_size", 3},     {"patch_size", 2}, {"image_size", 14}, {"num_labels", 3}};

void refuses(const json& config, const std::vector<std::string>& parts) {
  expect_error([&] { make_model(config); }, parts);
}

std::set<std::string> names_of(Model& model) {
  std::set<std::string> names;
  for (const Binding& b : model.bindings())
    if (!b.tied) names.insert(b.theirs);
  return names;
}

}  // namespace

TEST(Windows, EveryTokenHasOnePlace) {
  Context ctx;
  for (const Grid& grid : {Grid{2, 6, 6}, Grid{1, 5, 7}, Grid{3, 4, 9}})
    for (std::int64_t shift : {0, 1, 2}) {
      const Windows w = cut_windows(ctx, grid, 3, shift);
      const std::vector<std::int64_t> slots = w.packing.index.to_vector<std::int64_t>();
      EXPECT_EQ(static_cast<std::int64_t>(slots.size()), grid.tokens());
      EXPECT_EQ(std::set(slots.begin(), slots.end()).size(), slots.size());
      EXPECT_EQ(w.packing.batch, grid.batch * ((grid.height + 2) / 3) * ((grid.width + 2) / 3));
      EXPECT_EQ(w.mask.defined(), shift > 0);
      const Tensor x = random_uniform(ctx, {grid.tokens(), 4});
      EXPECT_EQ(pack(ctx, unpack(ctx, x, w.packing), w.packing).to_vector<float>(), x.to_vector<float>());
    }
}

// In a shifted window two tokens see each other if they are neighbours in the image: no more than the window apart.
TEST(Windows, MaskSeparatesWhatTheShiftBroughtTogether) {
  Context ctx;
  const Grid grid{1, 6, 9};
  const Windows w = cut_windows(ctx, grid, 3, 1);
  const std::vector<std::int64_t> slots = w.packing.index.to_vector<std::int64_t>();
  const std::vector<float> mask = w.mask.to_vector<float>();
  std::size_t hidden = 0;
  for (std::size_t a = 0; a < slots.size(); ++a)
    for (std::size_t b = 0; b < slots.size(); ++b) {
      if (slots[a] / 9 != slots[b] / 9) continue;  // of other windows
      auto apart = [&](std::size_t width, bool rows) {
        const auto i = static_cast<std::int64_t>(rows ? a / width : a % width), j = static_cast<std::int64_t>(rows ? b / width : b % width);
        return std::abs(i - j);
      };
      const bool near = apart(9, true) < 3 && apart(9, false) < 3;
      EXPECT_EQ(mask[static_cast<std::size_t>(slots[a] * 9 + slots[b] % 9)], near ? 0.0F : -100.0F);
      hidden += near ? 0 : 1;
    }
  EXPECT_GT(hidden, 0U);
}

// One block sees its window; the next, shifted, sees beyond it.
TEST(Swin, TokensMeetAcrossWindowsInTheSecondBlock) {
  for (const std::int64_t depth : {1, 2}) {
    Context ctx;
    SwinConfig c{.channels = 1, .height = 6, .width = 6, .patches = {1, 1}, .d = 8, .depths = {depth}, .heads = {2}, .window = 3};
    Swin model(c);
    initialize(ctx, model);
    for (const NamedParameter& p : parameters(model))  // large weights: what one token does to another is more than rounding
      if (p.parameter->shape.rank() == 2)
        change(ctx, p.parameter->tensor, [](std::vector<float>& weights) {
          for (float& w : weights) w *= 5.0F;
        });
    const Tensor x = random_uniform(ctx, {1, 1, 6, 6});
    std::vector<float> other = x.to_vector<float>();
    other[0] += 1.0F;
    const std::vector<float> a = model(ctx, x).to_vector<float>(),
                             b = model(ctx, Tensor::from<float>(ctx, x.shape(), other)).to_vector<float>();
    auto differs = [&](std::size_t token) {
      return !std::equal(a.begin() + token * 8, a.begin() + (token + 1) * 8, b.begin() + token * 8);
    };
    EXPECT_TRUE(differs(0));
    EXPECT_TRUE(differs(2 * 6 + 2));            // the other end of the window
    EXPECT_EQ(differs(3 * 6 + 3), depth == 2);  // the window diagonally beside it
    EXPECT_FALSE(differs(5 * 6 + 5));           // the other end of the image: two windows of the shifted kind away
  }
}

TEST(Swin, DropPathLeavesOutWholeSamplesWhileTraining) {
  Context ctx({.seed = 3});
  SwinConfig c{
      .channels = 1, .height = 4, .width = 4, .patches = {1, 1}, .d = 8, .depths = {1, 1}, .heads = {1, 1}, .window = 2, .drop_path = 0.9F};
  Swin model(c);
  initialize(ctx, model);
  const Tensor x = random_uniform(ctx, {8, 1, 4, 4});
  const std::vector<float> calm = model(ctx, x).to_vector<float>();
  EXPECT_EQ(model(ctx, x).to_vector<float>(), calm);
  ctx.set_training(true);
  EXPECT_NE(model(ctx, x).to_vector<float>(), calm);
}

TEST(Swin, RefusesByName) {
  Context ctx;
  refuses(with(swin, {{"windows_size", 3}}), {"windows_size", "window_size"});
  refuses(with(swin, {{"num_heads", {2}}}), {"num_heads"});
  refuses(with(swin, {{"num_heads", {3, 2}}}), {"num_heads"});
  refuses(with(swin, {{"depths", json::array()}}), {"depths"});
  refuses(with(swin, {{"depths", {2, -1}}}), {"depths"});
  refuses(with(swin, {{"hidden_size", 5}}), {"hidden_size", "5"});
  refuses(with(swin, {{"mlp_ratio", -1.0}}), {"mlp_ratio"});
  refuses(with(swin, {{"drop_path_rate", 1.0}}), {"drop_path_rate"});
  refuses(with(swin, {{"architectures", {"SwinForMaskedImageModeling"}}}), {"SwinForMaskedImageModeling", "SwinForImageClassification"});
  refuses(with(swin, {{"problem_type", "ranking"}}), {"problem_type", "ranking"});
  const auto small = fresh(ctx, with(swin, {{"window_size", 5}}));
  expect_error([&] { small->run(ctx, {{"pixel_values", Tensor::zeros(ctx, {1, 3, 14, 14})}}); }, {"swin", "4 x 4", "5 x 5"});
  expect_error([&] { small->run(ctx, {{"pixel_values", Tensor::zeros(ctx, {1, 4, 14, 14})}}); }, {"[1, 4, 14, 14]"});
}

// Images of other sizes are fine where there is no table of positions, as in Hugging Face.
TEST(Swin, TakesOtherSizesUnlessItHasPositions) {
  Context ctx;
  const Tensor images = random_uniform(ctx, {2, 3, 19, 12});
  EXPECT_EQ(fresh(ctx, swin)->run(ctx, {{"pixel_values", images}}).at("logits").shape(), (Shape{2, 3}));
  const auto fixed = fresh(ctx, with(swin, {{"use_absolute_embeddings", true}}));
  expect_error([&] { fixed->run(ctx, {{"pixel_values", images}}); }, {"swin", "14 x 14"});
}

TEST(Vit, RefusesByName) {
  Context ctx;
  refuses(with(vit, {{"hidden_sise", 3}}), {"hidden_sise", "hidden_size"});
  refuses(with(vit, {{"hidden_act", "quick_gelu"}}), {"hidden_act", "quick_gelu"});
  refuses(with(vit, {{"patch_size", 16}}), {"image_size"});
  refuses(with(vit, {{"patch_size", {4, 4, 4}}}), {"patch_size"});
  refuses(with(vit, {{"image_size", 1 << 20}}), {"image_size"});
  refuses(with(vit, {{"num_channels", 1 << 28}}), {"patch_size"});
  refuses(with(vit, {{"num_attention_heads", 1 << 20}, {"head_dim", 1 << 20}}), {"head_dim"});
  refuses(with(vit, {{"num_attention_heads", 3}}), {"16", "3 heads"});
  refuses(with(vit, {{"architectures", {"ViTForMaskedImageModeling"}}}), {"ViTForMaskedImageModeling"});
  const auto model = fresh(ctx, vit);
  expect_error([&] { model->run(ctx, {{"pixel_values", Tensor::zeros(ctx, {1, 3, 12, 12})}}); }, {"[1, 3, 12, 12]", "8, 8"});
  expect_error([&] { model->run(ctx, {{"input_ids", Tensor::zeros(ctx, {1, 3}, DType::int64)}}); }, {"input_ids", "pixel_values"});
}

// A base model saved alone has no prefix.
TEST(Vit, NamesOfTheBaseModel) {
  Context ctx;
  auto base = fresh(ctx, with(vit, {{"architectures", {"ViTModel"}}}));
  const std::set<std::string> names = names_of(*base);
  EXPECT_TRUE(names.contains("encoder.layer.0.attention.attention.query.weight"));
  EXPECT_TRUE(names.contains("pooler.dense.weight"));
  EXPECT_FALSE(names.contains("classifier.weight"));
  const auto headed = fresh(ctx, vit);
  EXPECT_TRUE(names_of(*headed).contains("vit.encoder.layer.0.attention.attention.query.weight"));
}

// Some base models were saved without it; Hugging Face would draw one at random.
TEST(Vit, BaseModelMayHaveNoPooler) {
  Context ctx;
  const TemporaryFolder folder, without;
  const json config = with(vit, {{"architectures", {"ViTModel"}}});
  const auto model = fresh(ctx, config);
  save_model(ctx, *model, folder.path());
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (auto& [name, t] : named_tensors(ctx, model->bindings()))
    if (!name.starts_with("pooler.")) tensors.emplace_back("vit." + name, t);  // and with the prefix of a model with a head
  save_safetensors(without / "model.safetensors", tensors);
  std::filesystem::copy_file(folder / "config.json", without / "config.json");
  const NamedTensors images{{"pixel_values", random_uniform(ctx, {2, 3, 8, 8})}};
  const NamedTensors a = load_model(ctx, folder.path())->run(ctx, images), b = load_model(ctx, without.path())->run(ctx, images);
  EXPECT_TRUE(a.contains("pooler_output"));
  EXPECT_FALSE(b.contains("pooler_output"));
  EXPECT_EQ(a.at("last_hidden_state").to_vector<float>(), b.at("last_hidden_state").to_vector<float>());
}

// Files with the names that Hugging Face's modules have today are read as well.
TEST(Vit, ReadsTheNewerNames) {
  Context ctx;
  const TemporaryFolder folder, renamed;
  const auto model = fresh(ctx, vit);
  save_model(ctx, *model, folder.path());
  std::map<std::pair<Parameter*, std::int64_t>, std::string> newer;
  for (const Binding& b : model->bindings())
    if (b.tied) newer[{b.ours.parameter, b.row}] = b.theirs;
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Binding& b : model->bindings()) {
    if (b.tied) continue;
    const auto name = newer.find({b.ours.parameter, b.row});
    tensors.emplace_back(name == newer.end() ? b.theirs : name->second, b.to_theirs(ctx, b.ours.parameter->tensor));
  }
  save_safetensors(renamed / "model.safetensors", tensors);
  std::filesystem::copy_file(folder / "config.json", renamed / "config.json");
  const Tensor x = random_uniform(ctx, {2, 3, 8, 8});
  EXPECT_EQ(load_model(ctx, renamed.path())->run(ctx, {{"pixel_values", x}}).at("logits").to_vector<float>(),
            model->run(ctx, {{"pixel_values", x}}).at("logits").to_vector<float>());
}

TEST(LabelLoss, OfThreeKinds) {
  Context ctx;
  const Tensor logits = tensor(ctx, {2, 2}, {1.0F, -2.0F, 0.5F, 3.0F});
  const double single = (std::log(1.0 + std::exp(-3.0)) + std::log(1.0 + std::exp(2.5))) / 2.0;
  expect_near(label_loss(ctx, logits, Tensor::from<std::int64_t>(ctx, {2}, {0, 0})), {single}, 1e-6);
  auto binary = [](double z, double y) { return std::log(1.0 + std::exp(z)) - z * y; };
  const double multi = (binary(1.0, 1.0) + binary(-2.0, 0.0) + binary(0.5, 0.0) + binary(3.0, 1.0)) / 4.0;
  expect_near(label_loss(ctx, logits, tensor(ctx, {2, 2}, {1, 0, 0, 1})), {multi}, 1e-6);
  expect_near(label_loss(ctx, logits, tensor(ctx, {2, 2}, {1, 0, 0, 1}), ProblemType::regression), {(0.0 + 4.0 + 0.25 + 4.0) / 4.0}, 1e-6);
  expect_near(label_loss(ctx, tensor(ctx, {2, 1}, {1, 3}), Tensor::from<std::int64_t>(ctx, {2}, {0, 1})), {2.5}, 1e-6);
  expect_error([&] { label_loss(ctx, logits, Tensor::from<std::int64_t>(ctx, {3}, {0, 0, 1})); }, {"[3]", "[2, 2]"});
  expect_error([&] { label_loss(ctx, logits, Tensor::from<std::int64_t>(ctx, {2}, {0, 2})); }, {"2"});
}

}  // namespace transformer::test
