// Runs a fuzz target on files and on all files of directories: what libFuzzer does with its corpus,
// for a compiler without libFuzzer.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::size_t replay(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      files += replay(entry.path());
    return files;
  }
  const std::string content = vtrace::test::read_text(path);
  // A copy of its own size, so that a sanitizer sees a read past the end.
  const std::vector<std::uint8_t> bytes(content.begin(), content.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::size_t files = 0;
    for (int i = 1; i < argc; ++i) files += replay(argv[i]);
    std::printf("%zu inputs replayed\n", files);
    return files > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
