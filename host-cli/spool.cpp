#include "host-cli/spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace vtrace {
namespace {

constexpr const char* kMetadataFile = "metadata";

std::string cpu_file_name(int cpu) {
  return fmt::format("cpu{}.raw", cpu);
}

}  // namespace

Result<Spool> Spool::create_beside(const std::string& output) {
  const std::filesystem::path path(output);
  std::string pattern =
      (path.parent_path() / fmt::format(".{}.spool.XXXXXX", path.filename().string())).string();
  if (::mkdtemp(pattern.data()) == nullptr) return fail_errno(pattern, errno);
  auto directory = open_fd(pattern, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!directory) {
    ::rmdir(pattern.c_str());
    return std::unexpected(std::move(directory).error());
  }
  return Spool(std::move(pattern), std::move(*directory), true);
}

Result<Spool> Spool::create_at(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0777) < 0 && errno != EEXIST) return fail_errno(directory, errno);
  VTRACE_TRY(Fd fd, open_fd(directory, O_RDONLY | O_DIRECTORY));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".raw") || name == kMetadataFile) {
      return fail(fmt::format("{}: has a capture in it already ({}); give another directory",
                              directory, name));
    }
  }
  if (error) return fail_errno(directory, error.value());
  if (::faccessat(fd.get(), ".", W_OK | X_OK, AT_EACCESS) < 0) return fail_errno(directory, errno);
  return Spool(directory, std::move(fd), false);
}

Spool::Spool(Spool&& other) noexcept
    : path_(std::move(other.path_)),
      directory_(std::move(other.directory_)),
      temporary_(std::exchange(other.temporary_, false)),
      files_(std::move(other.files_)) {}

Spool::~Spool() {
  if (!temporary_) return;
  for (const std::string& file : files_) ::unlinkat(directory_.get(), file.c_str(), 0);
  ::rmdir(path_.c_str());
}

Result<Fd> Spool::create_file(const std::string& name) {
  VTRACE_TRY(Fd fd, open_fd_at(directory_.get(), name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666,
                               fmt::format("{}/{}", path_, name)));
  files_.push_back(name);
  return fd;
}

Result<Fd> Spool::create_cpu_file(int cpu) {
  return create_file(cpu_file_name(cpu));
}

Status Spool::save_metadata(const Metadata& metadata) {
  // Written anew as more becomes known; a whole one is there at any time.
  const std::string fresh = fmt::format("{}.new", kMetadataFile);
  VTRACE_TRY(const Fd fd, create_file(fresh));
  VTRACE_CHECK(write_all(fd.get(), encode_metadata(metadata), fmt::format("{}/{}", path_, fresh)));
  if (::renameat(directory_.get(), fresh.c_str(), directory_.get(), kMetadataFile) < 0)
    return fail_errno(fmt::format("{}/{}", path_, kMetadataFile), errno);
  if (std::ranges::find(files_, kMetadataFile) == files_.end()) files_.emplace_back(kMetadataFile);
  return {};
}

std::string Spool::cpu_file_path(int cpu) const {
  return fmt::format("{}/{}", path_, cpu_file_name(cpu));
}

}  // namespace vtrace
