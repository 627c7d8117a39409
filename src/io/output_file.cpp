#include "io/shared/output_file.h"

#include <zlib.h>

#include <array>
#include <iostream>
#include <optional>
#include <streambuf>

#include "io/shared/atomic_file.h"
#include "transformer/core/error.h"

namespace transformer {

// Bytes on their way to a file as gzip has them.
class Gzip {
 public:
  explicit Gzip(AtomicFile& file) : file_(file) {
    constexpr int window = 15, with_header = 16, memory = 8;
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window + with_header, memory, Z_DEFAULT_STRATEGY) != Z_OK)
      fail("gzip", "there is no memory for it");
  }
  ~Gzip() { deflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  void write(const char* data, std::size_t bytes) { run(data, bytes, Z_NO_FLUSH); }
  void finish() { run("", 0, Z_FINISH); }

 private:
  void run(const char* data, std::size_t bytes, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data));
    stream_.avail_in = static_cast<uInt>(bytes);
    do {
      stream_.next_out = out_.data();
      stream_.avail_out = static_cast<uInt>(out_.size());
      deflate(&stream_, flush);
      file_.write(out_.data(), out_.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);  // there may be more
  }

  AtomicFile& file_;
  z_stream stream_ = {};
  std::array<Bytef, std::size_t{1} << 15> out_;
};

// What is written collects here and goes to the file when it is full, or flushed.
class OutputFile::Buffer final : public std::streambuf {
 public:
  explicit Buffer(const std::string& path) : file_(path) {
    if (path.ends_with(".gz")) gzip_.emplace(file_);
    empty();
  }

  void commit() {
    sync();
    if (gzip_) gzip_->finish();
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
    if (gzip_) gzip_->write(pbase(), bytes);
    else file_.write(pbase(), bytes);
    empty();
    return 0;
  }

 private:
  void empty() { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

  AtomicFile file_;
  std::optional<Gzip> gzip_;  // of a name that ends in .gz
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
