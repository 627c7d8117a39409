#include "transformer/text/documents.h"

#include <algorithm>
#include <optional>

#include "io/shared/characters.h"
#include "io/shared/text_file.h"
#include "io/shared/utf8.h"
#include "transformer/core/parallel.h"
#include "transformer/io/lines.h"

namespace transformer {
namespace {

bool is_ascii_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'; }

// The last place where a line begins with text, or 0.
std::size_t last_line_of(std::string_view text) {
  for (std::size_t at = text.rfind('\n'); at != std::string_view::npos && at > 0; at = text.rfind('\n', at - 1))
    if (at + 1 < text.size() && !is_ascii_space(text[at + 1])) return at + 1;
  return 0;
}

}  // namespace

// One open file: its bytes, or its lines.
struct DocumentReader::Source {
  std::optional<TextFile> bytes;
  std::optional<LineReader> lines;
  std::string buffer = {};  // bytes not yet given; or the line that was read too far
  bool begun = false, ended = false;

  Source(const std::string& path, bool by_lines) {
    if (by_lines) lines.emplace(path);
    else bytes.emplace(path);
  }

  void fill(std::size_t size) {
    for (const std::size_t wanted = buffer.size() + size; !ended && buffer.size() < wanted;) {
      const std::size_t before = buffer.size();
      buffer.resize(wanted);
      const std::size_t got = bytes->read(buffer.data() + before, wanted - before, fmt::format("after {} bytes", before));
      buffer.resize(before + got);
      ended = got == 0;
    }
  }
};

DocumentReader::DocumentReader(std::vector<std::string> files, Documents kind, std::size_t part_bytes)
    : files_(std::move(files)), kind_(kind), part_bytes_(std::max<std::size_t>(part_bytes, 16)) {
  for (const std::string& file : files_)
    if (file != "-") TextFile{file};
}
DocumentReader::~DocumentReader() = default;

bool DocumentReader::next_of_file(DocumentPart& part) {
  Source& s = *source_;
  while (true) {
    if (!s.ended) s.fill(part_bytes_);
    std::size_t cut = s.buffer.size();
    if (!s.ended) {
      cut = last_line_of(s.buffer);
      if (cut == 0 && s.buffer.size() < 16 * part_bytes_) continue;
      if (cut == 0) {  // no line begins for long: between two characters, one of which stays
        cut = s.buffer.size() - 1;
        while (cut > s.buffer.size() - 4 && continues_character(s.buffer[cut])) --cut;
      }
    }
    part.text.assign(s.buffer, 0, cut);
    s.buffer.erase(0, cut);
    part.last = s.ended;
    return !part.text.empty();
  }
}

bool DocumentReader::next_of_lines(DocumentPart& part) {
  Source& s = *source_;
  part.text.clear();
  part.last = true;
  const auto read = [&](std::string& line) {
    if (!s.begun) return s.lines->next(line);
    s.begun = false;  // the line that was read too far
    line = std::move(s.buffer);
    return true;
  };
  for (std::string line; read(line);) {
    if (line.empty() && part.text.empty()) continue;
    if (line.empty()) return true;
    if (part.text.size() >= part_bytes_ && !is_ascii_space(line.front())) {  // a long paragraph goes on
      s.buffer = std::move(line);
      s.begun = true;
      part.text += '\n';
      part.last = false;
      return true;
    }
    if (!part.text.empty()) part.text += '\n';
    part.text += line;
    if (kind_ == Documents::line) return true;
  }
  return !part.text.empty();
}

bool DocumentReader::next(DocumentPart& part) {
  for (; at_ < files_.size(); ++at_, source_.reset()) {
    const bool by_lines = kind_ != Documents::file;
    if (source_ == nullptr) source_ = std::make_unique<Source>(files_[at_], by_lines);
    else if (!by_lines && source_->ended) continue;
    if (by_lines ? next_of_lines(part) : next_of_file(part)) {
      if (!is_valid_utf8(part.text)) part.text = sanitize_utf8(part.text, replaced_);
      return true;
    }
  }
  return false;
}

std::vector<std::vector<std::int32_t>> encode(const Tokenizer& tokenizer, std::span<const DocumentPart> parts, int threads) {
  std::vector<std::vector<std::int32_t>> ids(parts.size());
  parallel_for(threads > 0 ? threads : hardware_threads(), std::ssize(parts), 1, [&](std::int64_t from, std::int64_t to) {
    for (auto i = static_cast<std::size_t>(from); i < static_cast<std::size_t>(to); ++i) ids[i] = tokenizer.encode(parts[i].text);
  });
  return ids;
}

}  // namespace transformer
