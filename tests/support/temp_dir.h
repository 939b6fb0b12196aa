// A directory that lives as long as its owner.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace vtrace::test {

// mkdtemp(3) below $TMPDIR or /tmp, mode 0700; removed with all its content at the end. The path is
// short enough for unix sockets in it. Throws when it cannot be made.
class TempDir {
 public:
  TempDir();
  TempDir(TempDir&& other) noexcept;
  TempDir& operator=(TempDir&& other) = delete;
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string file(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// A whole file; throws when it cannot be written or read.
void write_text(const std::filesystem::path& path, std::string_view text);
[[nodiscard]] std::string read_text(const std::filesystem::path& path);

}  // namespace vtrace::test
