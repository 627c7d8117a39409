#pragma once
// Text files as documents, for language models: every byte of them counts, line ends too.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

enum class Documents : std::uint8_t {
  file,       // each file, as it is
  line,       // each line that is not empty, without its end
  paragraph,  // lines between empty ones, joined by "\n"
};
inline EnumNames<Documents> names(Documents) {
  return {{Documents::file, "file"}, {Documents::line, "line"}, {Documents::paragraph, "paragraph"}};
}

// A document, or a part of a long one: parts end where a line ends and the next begins with text, so that tokenizers make the same of
// them as of the whole.
struct DocumentPart {
  std::string text = {};
  bool last = true;  // of its document
};

class DocumentReader {
 public:
  // Plain or gzip files (told by their first bytes), "-": standard input. Error at once when one cannot be opened.
  DocumentReader(std::vector<std::string> files, Documents kind, std::size_t part_bytes = std::size_t{1} << 20);
  ~DocumentReader();

  // False after the last one; documents without text are passed over. A byte order mark at the beginning of a file is dropped; bytes
  // that are not UTF-8 become U+FFFD and are counted. Memory stays within a few parts (a line of text is never longer than 1 GB).
  bool next(DocumentPart& part);
  std::int64_t replaced() const { return replaced_; }

 private:
  struct Source;
  bool next_of_file(DocumentPart& part);
  bool next_of_lines(DocumentPart& part);

  std::vector<std::string> files_;
  Documents kind_;
  std::size_t part_bytes_, at_ = 0;
  std::unique_ptr<Source> source_;  // of files_[at_], when it is open
  std::int64_t replaced_ = 0;
};

// The ids of each part, computed by several threads (0: all that the machine offers).
std::vector<std::vector<std::int32_t>> encode(const Tokenizer& tokenizer, std::span<const DocumentPart> parts, int threads = 0);

}  // namespace transformer
