#include "transformer/io/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "io/shared/atomic_file.h"
#include "io/shared/json.h"
#include "io/shared/mapping.h"
#include "transformer/io/config.h"

namespace transformer {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian and mapped as they are");
constexpr std::size_t max_header = 100'000'000;  // as the reference implementation

struct StoredType {
  std::string_view name;
  std::size_t bytes;
  std::optional<DType> dtype;  // as what it is loaded; none: known, but this library does not compute with it
};
constexpr std::array<StoredType, 16> stored_types{{
    {"F32", 4, DType::float32},
    {"BF16", 2, DType::bfloat16},
    {"F16", 2, DType::float16},
    {"I32", 4, DType::int32},
    {"I64", 8, DType::int64},
    {"U8", 1, DType::uint8},
    {"I8", 1, DType::int8},
    {"BOOL", 1, DType::uint8},
    {"F64", 8, DType::float32},
    {"I16", 2, {}},
    {"U16", 2, {}},
    {"U32", 4, {}},
    {"U64", 8, {}},
    {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},
    {"C64", 8, {}},
}};

const StoredType* find_type(std::string_view name) {
  const auto* it = std::find_if(stored_types.begin(), stored_types.end(), [&](const StoredType& t) { return t.name == name; });
  return it == stored_types.end() ? nullptr : it;
}
const StoredType& type_for(DType dtype) {  // the first of the table: never F64 or BOOL
  return *std::find_if(stored_types.begin(), stored_types.end(), [&](const StoredType& t) { return t.dtype == dtype; });
}

// a·b, or nothing when it does not fit in 63 bits.
std::optional<std::size_t> product(std::size_t a, std::size_t b) {
  if (b != 0 && a > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()) / b) return {};
  return a * b;
}

// The header as JSON; a name that occurs twice is refused, where an ordinary parser would keep the last one.
nlohmann::json parse_header(const std::string& path, std::string_view text) {
  std::set<std::string> seen;
  return parse_json(text, path + ", header", [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key && !seen.insert(parsed.get<std::string>()).second)
      fail(path, "tensor '{}' occurs twice", parsed.get<std::string>());
    return true;
  });
}

// An array of sizes that fit in 63 bits.
std::optional<std::vector<std::int64_t>> sizes_of(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array()) return {};
  std::vector<std::int64_t> sizes;
  for (const nlohmann::json& v : *it) {
    if (!v.is_number_unsigned() || v.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return {};
    sizes.push_back(v.get<std::int64_t>());
  }
  return sizes;
}

std::shared_ptr<std::byte> aligned_bytes(std::size_t bytes) {
  constexpr std::align_val_t alignment{64};
  return {static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), alignment)),
          [](std::byte* p) { ::operator delete(p, alignment); }};
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path.string()) {
  const auto mapping = std::make_shared<Mapping>(path_);
  std::uint64_t header = 0;
  if (mapping->size < sizeof(header)) fail(path_, "has {} bytes: too short for a safetensors file", mapping->size);
  std::memcpy(&header, mapping->data, sizeof(header));
  if (header > max_header || header > mapping->size - sizeof(header))
    fail(path_, "is not a safetensors file, or is cut short: it announces a header of {} bytes and has {}", header, mapping->size);
  data_ = std::shared_ptr<std::byte>(mapping, mapping->data + sizeof(header) + header);

  const char* text = reinterpret_cast<const char*>(mapping->data) + sizeof(header);
  const nlohmann::json json = parse_header(path_, {text, header});
  if (!json.is_object()) fail(path_, "the header must be a JSON object");
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) fail(path_, "__metadata__ must be an object");
      for (const auto& [key, text_value] : value.items()) {
        if (!text_value.is_string()) fail(path_, "__metadata__ '{}' must be a string", key);
        metadata_.emplace(key, text_value.get<std::string>());
      }
      continue;
    }
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string()) fail(path_, "tensor '{}' has no dtype", name);
    const auto shape = sizes_of(value, "shape"), offsets = sizes_of(value, "data_offsets");
    if (!shape) fail(path_, "tensor '{}' has no valid shape", name);
    if (!offsets || offsets->size() != 2) fail(path_, "tensor '{}' has no valid data_offsets", name);
    if (shape->size() > Shape::max_rank)
      fail(path_, "tensor '{}' has {} dimensions, at most {} are supported", name, shape->size(), Shape::max_rank);
    entries_.emplace(name,
                     Entry{value["dtype"].get<std::string>(), Shape(*shape), static_cast<std::size_t>((*offsets)[0]),
                           static_cast<std::size_t>((*offsets)[1])});
  }
  check_layout(mapping->size - sizeof(header) - header);
}

// Every byte after the header belongs to exactly one tensor, and to as many elements as its shape says.
void SafetensorsFile::check_layout(std::size_t data_bytes) {
  for (const auto& [name, e] : entries_) {
    const StoredType* type = find_type(e.type);
    if (type == nullptr) fail(path_, "tensor '{}' has the unknown dtype '{}'", name, e.type);
    if (e.begin > e.end || e.end > data_bytes) fail(path_, "tensor '{}' lies at bytes {} to {} of {}", name, e.begin, e.end, data_bytes);
    std::optional<std::size_t> bytes = type->bytes;  // of the sizes that are not 0: none may overflow, whatever their order
    bool empty = false;
    for (std::int64_t d : e.shape) {
      empty = empty || d == 0;
      if (bytes) bytes = product(*bytes, d == 0 ? 1 : static_cast<std::size_t>(d));
    }
    if (!bytes || (empty ? 0 : *bytes) != e.end - e.begin)
      fail(path_, "tensor '{}' {} {} does not fit its {} bytes", name, e.type, e.shape, e.end - e.begin);
    names_.push_back(name);
  }
  auto place = [&](const std::string& name) {
    const Entry& e = entries_.find(name)->second;
    return std::pair(e.begin, e.end);
  };
  std::stable_sort(names_.begin(), names_.end(), [&](const std::string& a, const std::string& b) { return place(a) < place(b); });
  std::size_t reached = 0;
  for (const std::string& name : names_) {
    const auto [begin, end] = place(name);
    if (begin < reached) fail(path_, "tensor '{}' at byte {} overlaps the one before it", name, begin);
    if (begin > reached) fail(path_, "bytes {} to {}, before tensor '{}', belong to no tensor", reached, begin, name);
    reached = end;
  }
  if (reached != data_bytes) fail(path_, "bytes {} to {} belong to no tensor", reached, data_bytes);
}

const SafetensorsFile::Entry& SafetensorsFile::entry(std::string_view name) const {
  const auto it = entries_.find(name);
  if (it == entries_.end()) fail(path_, "there is no tensor '{}'{}", name, did_you_mean(name, names_));
  return it->second;
}

DType SafetensorsFile::dtype(std::string_view name) const {
  const Entry& e = entry(name);
  const StoredType& type = *find_type(e.type);
  if (!type.dtype) fail(path_, "tensor '{}' is {}, which is not supported", name, e.type);
  return *type.dtype;
}

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const Entry& e = entry(name);
  const DType type = dtype(name);
  std::byte* at = data_.get() + e.begin;
  if (e.type == "F64") {
    const auto copy = aligned_bytes((e.end - e.begin) / 2);
    for (std::size_t i = 0; i < (e.end - e.begin) / sizeof(double); ++i) {
      double value = 0.0;
      std::memcpy(&value, at + i * sizeof(double), sizeof(double));
      const auto narrow = static_cast<float>(value);
      std::memcpy(copy.get() + i * sizeof(float), &narrow, sizeof(float));
    }
    return Tensor::wrap(copy, e.shape, type);
  }
  if (reinterpret_cast<std::uintptr_t>(at) % static_cast<std::size_t>(size_of(type)) != 0) {
    const auto copy = aligned_bytes(e.end - e.begin);
    std::memcpy(copy.get(), at, e.end - e.begin);
    return Tensor::wrap(copy, e.shape, type);
  }
  return Tensor::wrap(std::shared_ptr<std::byte>(data_, at), e.shape, type);
}

void SafetensorsFile::drop(std::string_view name) const {
  const Entry& e = entry(name);
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)), at = reinterpret_cast<std::uintptr_t>(data_.get());
  const std::uintptr_t begin = (at + e.begin + page - 1) / page * page, end = (at + e.end) / page * page;  // whole pages of it alone
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void save_safetensors(const std::filesystem::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                      const Metadata& metadata) {
  std::vector<TensorToSave> named;
  for (const auto& [name, t] : tensors) {
    if (!t.defined()) fail(path.string(), "tensor '{}' is undefined", name);
    named.push_back({name, t.shape(), t.dtype(), [t = t] { return t; }});
  }
  write_safetensors(path, named, metadata);
}

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToSave>& tensors, const Metadata& metadata) {
  const std::string where = path.string();
  std::vector<const TensorToSave*> order;
  std::set<std::string_view> seen;
  for (const TensorToSave& t : tensors) {
    if (t.name == "__metadata__") fail(where, "a tensor cannot be called '__metadata__'");
    if (!seen.insert(t.name).second) fail(where, "tensor '{}' is given twice", t.name);
    order.push_back(&t);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const TensorToSave* a, const TensorToSave* b) { return size_of(a->dtype) > size_of(b->dtype); });

  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::int64_t offset = 0;
  for (const TensorToSave* t : order) {
    const std::int64_t end = offset + t->shape.numel() * size_of(t->dtype);
    json[t->name] = {{"dtype", type_for(t->dtype).name},
                     {"shape", std::vector<std::int64_t>(t->shape.begin(), t->shape.end())},
                     {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string header;
  try {
    header = json.dump();
  } catch (const nlohmann::json::exception& e) {
    fail(where, "a name is not UTF-8: {}", e.what());
  }
  // The format wants a multiple of 8; tensors that begin a line of the cache are read faster where they are mapped.
  header.append((64 - (sizeof(std::uint64_t) + header.size()) % 64) % 64, ' ');
  if (header.size() > max_header) fail(where, "the header would have {} bytes, at most {} are allowed", header.size(), max_header);

  AtomicFile file(path);
  const std::uint64_t length = header.size();
  file.write(&length, sizeof(length));
  file.write(header);
  for (const TensorToSave* entry : order) {
    const Tensor t = entry->make().to_host();
    if (t.shape() != entry->shape || t.dtype() != entry->dtype)
      fail(where, "tensor '{}' is {} {}: {} {} was announced", entry->name, t.shape(), t.dtype(), entry->shape, entry->dtype);
    file.write(t.raw(), static_cast<std::size_t>(t.numel() * size_of(t.dtype())));
  }
  file.commit();
}

}  // namespace transformer
