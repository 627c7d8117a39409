#pragma once
// The bytes of a file that may be compressed with gzip (told by its first bytes, not by its name), one after the other.

#include <cstddef>
#include <memory>
#include <string>

struct gzFile_s;

namespace transformer {

class GzipFile {
 public:
  explicit GzipFile(const std::string& path);  // "-": standard input. Error names what cannot be opened
  virtual ~GzipFile() = default;

  // Up to `size` bytes; none at the end of the file. Error when the data are cut off or damaged, once what stands before that was
  // given; `position`, such as "after line 3", says where.
  virtual std::size_t read(void* to, std::size_t size, const std::string& position);
  const std::string& name() const { return name_; }

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };
  std::string name_;
  std::unique_ptr<gzFile_s, Close> file_;
};

}  // namespace transformer
