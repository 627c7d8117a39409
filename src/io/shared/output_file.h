#pragma once
// What a verb writes as it is made, line by line: standard output, or a file that takes its name when it is complete (AtomicFile);
// one whose name ends in .gz is compressed.
//
//   OutputFile out(path);       // "" and "-": standard output
//   out.stream() << line;       // Error names the file when it cannot be written
//   out.commit();               // without it the old file stays as it was

#include <memory>
#include <ostream>
#include <string>

namespace transformer {

class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  std::ostream& stream();
  void commit();

 private:
  class Buffer;
  struct File;
  std::unique_ptr<File> file_;  // none: standard output
};

}  // namespace transformer
