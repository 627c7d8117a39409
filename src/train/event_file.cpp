#include "train/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <system_error>

#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr std::string_view event_prefix = "events.out.tfevents.";

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  return bytes;
}

// The fields of a protocol buffer: a key (number · 8 + wire type), then the value.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>((value & 0x7F) | 0x80));
  return bytes + static_cast<char>(value);
}
std::string integer_field(std::uint64_t number, std::int64_t value) {
  return varint(number << 3 | 0) + varint(static_cast<std::uint64_t>(value));
}
std::string double_field(std::uint64_t number, double value) {
  return varint(number << 3 | 1) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(std::uint64_t number, float value) {
  return varint(number << 3 | 5) + little_endian(std::bit_cast<std::uint32_t>(value));
}
std::string bytes_field(std::uint64_t number, std::string_view value) {
  return (varint(number << 3 | 2) + varint(value.size())).append(value);
}

// message Event { double wall_time = 1; int64 step = 2; oneof what { string file_version = 3; Summary summary = 5;
//                 SessionLog session_log = 7; … } }
std::string event(std::int64_t step, std::uint64_t what, std::string_view value) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return tf_record(double_field(1, now) + integer_field(2, step) + bytes_field(what, value));
}

// The second that stands in the name of the next event file: now, or one more than the latest of the files that are there.
std::int64_t next_time(const std::filesystem::path& folder) {
  std::int64_t time = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::int64_t other = 0;
    if (name.starts_with(event_prefix) &&
        std::from_chars(name.data() + event_prefix.size(), name.data() + name.size(), other).ec == std::errc())
      time = std::max(time, other + 1);
  }
  return time;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = t[i] >> 1 ^ ((t[i] & 1U) != 0 ? 0x82F63B78U : 0U);  // the polynomial, reflected
    }
    return t;
  }();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

std::string tf_record(std::string_view data) {
  const auto checksum = [](std::string_view bytes) {  // masked: the CRC of data that holds CRCs is a poor one
    const std::uint32_t crc = crc32c(bytes);
    return little_endian((crc >> 15 | crc << 17) + 0xA282EAD8U);
  };
  const std::string length = little_endian(static_cast<std::uint64_t>(data.size()));
  return (length + checksum(length)).append(data) + checksum(data);
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t first_step) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {"localhost"};
  std::string name = host.data();
  std::replace(name.begin(), name.end(), '/', '-');
  file_ = AppendFile(folder / fmt::format("{}{:010}.{}.{}", event_prefix, next_time(folder), name, getpid()));
  // SessionLog { SessionStatus status = 1 }, where 1 is START
  file_.append(event(0, 3, "brain.Event:2") + event(first_step, 7, integer_field(1, 1)));
}

void EventFile::scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;  // Summary { repeated Value value = 1 }, Value { string tag = 1; float simple_value = 2 }
  for (const auto& [tag, value] : values) summary += bytes_field(1, bytes_field(1, tag) + float_field(2, static_cast<float>(value)));
  file_.append(event(step, 5, summary));
}

}  // namespace transformer
