#include "train/image_model.h"

#include "nn/shared/check_sizes.h"

namespace transformer {
namespace {

using nlohmann::json;

constexpr const char *plain_head = "ForImageClassification", *teacher_head = "ForImageClassificationWithTeacher";

void set_dropouts(json& config, const Family& family, const std::optional<float>& dropout, const std::optional<float>& attention) {
  for (const std::string& key : family.dropout.all)
    if (dropout) config[key] = detail::from_float("dropout", *dropout);
  for (const std::string& key : family.dropout.attention)
    if (attention) config[key] = detail::from_float("attention_dropout", *attention);
}

json labels_json(const std::vector<std::string>& classes) {
  json names = json::object(), ids = json::object();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    names[std::to_string(i)] = classes[i];
    ids[classes[i]] = i;
  }
  if (ids.size() != classes.size()) fail("train image", "two of the {} classes have the same name", classes.size());
  return {{"id2label", names}, {"label2id", ids}};
}

void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) wrong_setting("train image", name, "is {}: expected {} to {}", value, least, most);
}

}  // namespace

ImageModelConfig resolved(ImageModelConfig m, const ImageDataset::Extent& images) {
  check_range("image_size", m.image_size, 0, 4096);
  check_range("patch_size", m.patch_size, 0, 4096);
  check_range("d_model", m.d_model, 1, 1 << 20);
  check_range("num_heads", m.num_heads, 1, 1 << 20);
  check_range("num_layers", m.num_layers, 1, 2000);
  check_range("d_ff", m.d_ff, 0, 1 << 22);
  if (m.channels == 0) m.channels = images.channels == 0 ? 3 : images.channels;
  if (m.channels != 1 && m.channels != 3) wrong_setting("train image", "channels", "is {}: expected 1 (grey) or 3 (colours)", m.channels);
  check_width("train image", m.d_model, m.num_heads);
  if (m.d_ff == 0) m.d_ff = 4 * m.d_model;
  if (m.image_size == 0 && images.height == 0) m.image_size = 224;
  const std::int64_t height = m.image_size > 0 ? m.image_size : images.height, width = m.image_size > 0 ? m.image_size : images.width;
  if (m.patch_size == 0) m.patch_size = std::min(height, width) < 64 ? 4 : 16;
  if (height % m.patch_size != 0 || width % m.patch_size != 0)
    fail("train image",
         "images of {} x {} cannot be cut into patches of {} x {}: choose a patch_size that divides both, or another image_size", height,
         width, m.patch_size, m.patch_size);
  return m;
}

json image_model_json(const ImageModelConfig& m, std::int64_t height, std::int64_t width, const std::vector<std::string>& classes,
                      bool teacher) {
  const Family& family = family_named(detail::write_value(m.arch, "arch").get<std::string>());
  json out = config_of(family, teacher && !family.class_with(teacher_head).empty() ? teacher_head : plain_head);
  out.update(labels_json(classes));
  out["image_size"] = height == width ? json(height) : json{height, width};
  out["patch_size"] = m.patch_size;
  out["num_channels"] = m.channels;
  out["hidden_size"] = m.d_model;
  out["num_attention_heads"] = m.num_heads;
  out["num_hidden_layers"] = m.num_layers;
  out["intermediate_size"] = m.d_ff;
  out["hidden_act"] = "gelu";
  out["layer_norm_eps"] = 1e-6;
  out["qkv_bias"] = true;
  set_dropouts(out, family, m.dropout, m.attention_dropout);
  if (m.stochastic_depth != 0.0F) out["drop_path_rate"] = detail::from_float("stochastic_depth", m.stochastic_depth);
  out["problem_type"] = "single_label_classification";
  out["torch_dtype"] = "float32";
  return out;
}

json changed_image_model(const json& config, const ImageFineTuning& start, const std::vector<std::string>& classes, bool teacher) {
  json changes = labels_json(classes);
  const Family* family = find_family(config);
  if (family == nullptr || family->class_with(plain_head).empty()) return changes;  // it is refused
  const bool with_teacher = (teacher || has_teacher_head(config)) && !family->class_with(teacher_head).empty();
  changes["architectures"] = {family->class_with(with_teacher ? teacher_head : plain_head)};
  if (config.contains("num_labels")) changes["num_labels"] = classes.size();
  set_dropouts(changes, *family, start.dropout, start.attention_dropout);
  if (start.stochastic_depth) changes["drop_path_rate"] = detail::from_float("stochastic_depth", *start.stochastic_depth);
  return changes;
}

std::pair<std::int64_t, std::int64_t> image_size_of(const json& config) {
  const json size = config.value("image_size", json(224));
  if (size.is_array() && size.size() == 2) return {size[0].get<std::int64_t>(), size[1].get<std::int64_t>()};
  return {size.get<std::int64_t>(), size.get<std::int64_t>()};
}

bool has_teacher_head(const json& config) {
  const json names = config.value("architectures", json::array());
  return names.is_array() && !names.empty() && names[0].is_string() && names[0].get<std::string>().ends_with("WithTeacher");
}

}  // namespace transformer
