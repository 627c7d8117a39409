#include "io/output_file.h"

#include <array>
#include <iostream>
#include <streambuf>

#include "io/atomic_file.h"
#include "transformer/core/error.h"

namespace transformer {

// What is written collects here and goes to the file when it is full, or flushed.
class OutputFile::Buffer final : public std::streambuf {
 public:
  explicit Buffer(const std::string& path) : file_(path) { empty(); }

  void commit() {
    sync();
    file_.commit();
  }

 protected:
  int_type overflow(int_type c) override {
    sync();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }
  int sync() override {
    const auto bytes = static_cast<std::size_t>(pptr() - pbase());
    file_.write(pbase(), bytes);
    empty();
    return 0;
  }

 private:
  void empty() { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

  AtomicFile file_;
  std::array<char, std::size_t{1} << 16> buffer_;
};

struct OutputFile::File {
  Buffer buffer;
  std::ostream stream;

  explicit File(const std::string& path) : buffer(path), stream(&buffer) { stream.exceptions(std::ios::badbit); }  // the file's Error
};

OutputFile::OutputFile(const std::string& path) : file_(path.empty() || path == "-" ? nullptr : std::make_unique<File>(path)) {}
OutputFile::~OutputFile() = default;

std::ostream& OutputFile::stream() { return file_ ? file_->stream : std::cout; }

void OutputFile::commit() {
  if (file_) file_->buffer.commit();
  else if (!std::cout.flush()) fail("standard output", "cannot be written");
}

}  // namespace transformer
