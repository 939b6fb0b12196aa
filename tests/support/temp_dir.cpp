#include "tests/support/temp_dir.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

#include "common/fd.h"
#include "tests/support/must.h"

namespace vtrace::test {

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "vtrace-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw std::system_error(errno, std::system_category(), name);
  path_ = name;
}

TempDir::TempDir(TempDir&& other) noexcept : path_(std::move(other.path_)) {
  other.path_.clear();
}

TempDir::~TempDir() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  const Fd file = must(open_fd(path.string(), O_WRONLY | O_CREAT | O_TRUNC, 0644));
  must(write_all(file.get(), text, path.string()));
}

std::string read_text(const std::filesystem::path& path) {
  return must(read_file(path.string()));
}

}  // namespace vtrace::test
