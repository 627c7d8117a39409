#pragma once
// TensorBoard's event files: a sequence of Event messages (protocol buffers), each framed as a TFRecord.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/append_file.h"

namespace transformer {

std::uint32_t crc32c(std::string_view bytes);  // Castagnoli's polynomial

// length (8 bytes), its masked CRC (4), the data, its masked CRC (4); little-endian.
std::string tf_record(std::string_view data);

class EventFile {
 public:
  EventFile() = default;
  // A new file in `folder` whose name sorts after those of the event files there, for TensorBoard reads them in that order.
  // It begins with the start of a session at `first_step`: what earlier files say about this and later steps is void.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  void scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

}  // namespace transformer
