// trace.dat: what the writer writes the reader reads; what nobody should have written it refuses.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "host-cli/trace_dat_reader.h"
#include "host-cli/trace_dat_writer.h"
#include "tests/support/must.h"
#include "tests/support/sample_formats.h"
#include "tests/support/subbuf_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/support/trace_dat_v7.h"

namespace vtrace {
namespace {

namespace fs = std::filesystem;
using test::must;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Fd memory_file(std::span<const std::byte> bytes) {
  Fd fd(::memfd_create("test", MFD_CLOEXEC));
  must(write_all(fd.get(), bytes, "memfd"));
  return fd;
}

Bytes numbered_subbufs(std::uint64_t count, std::uint32_t size = 4096) {
  Bytes all;
  const SubbufLayout layout{.data_size = size - 16};
  for (std::uint64_t i = 0; i < count; ++i) {
    ByteWriter payload;
    payload.u32(test::kNumberId);
    payload.u32(77);
    payload.u32(static_cast<std::uint32_t>(i));
    const Bytes one = test::SubbufBuilder(1000 + i, layout).event(0, payload.bytes()).build();
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

Bytes read_all(const TraceDatReader& reader, const TraceDatBuffer& buffer, std::size_t index) {
  Bytes all;
  auto source = must(reader.source(buffer, buffer.cpus.at(index)));
  for (;;) {
    const SubbufPiece piece = must(source->next());
    if (piece.bytes.empty()) return all;
    EXPECT_EQ(piece.offset, all.size());
    all.insert(all.end(), piece.bytes.begin(), piece.bytes.end());
  }
}

class TraceDatFile : public ::testing::Test {
 protected:
  // Writes CPU data through the writer.
  Status write(const std::string& path, const std::vector<std::pair<int, Bytes>>& cpus,
               const Metadata& metadata = test::sample_metadata(),
               const WriteProgress& progress = {}) {
    std::vector<Fd> fds;
    std::vector<CpuSource> sources;
    for (const auto& [cpu, data] : cpus) {
      fds.push_back(memory_file(data));
      sources.push_back({cpu, fds.back().get(), 0, data.size()});
    }
    TraceDatExtras extras;
    extras.trace_id = 0x1122334455667788;
    extras.cpu_stats.emplace_back(2, "entries: 3\noverrun: 4\n");
    VTRACE_TRY(TraceDatWriter writer, TraceDatWriter::create(path));
    return writer.write(metadata, extras, sources, progress);
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_.path()))
      names.push_back(entry.path().filename().string());
    return names;
  }

  test::TempDir dir_;
};

TEST_F(TraceDatFile, ReadsBackWhatWasWritten) {
  const std::string path = dir_.file("trace.dat");
  const Bytes two = numbered_subbufs(100);
  const Bytes three = numbered_subbufs(1);
  must(write(path, {{3, three}, {0, {}}, {2, two}}));
  EXPECT_THAT(files(), ElementsAre("trace.dat"));

  const TraceDatReader reader = must(TraceDatReader::open(path));
  const TraceDatInfo& info = reader.info();
  const Metadata sample = test::sample_metadata();
  EXPECT_EQ(info.version, 6);
  EXPECT_EQ(info.page_size, 4096U);
  EXPECT_EQ(info.metadata.header_page, sample.header_page);
  EXPECT_EQ(info.metadata.header_event, sample.header_event);
  ASSERT_EQ(info.metadata.formats.size(), 2U);
  EXPECT_EQ(info.metadata.formats[0].system, "ftrace");
  EXPECT_EQ(info.metadata.formats[1].system, "test");
  EXPECT_EQ(info.metadata.formats[1].name, "number");
  EXPECT_EQ(info.metadata.formats[1].text, sample.formats[1].text);
  EXPECT_EQ(info.metadata.saved_cmdlines, sample.saved_cmdlines);
  EXPECT_EQ(info.metadata.kernel_release, "6.1.0");
  EXPECT_EQ(info.metadata.machine, "x86_64");
  EXPECT_EQ(info.writer, "virtio-trace " VTRACE_VERSION);
  EXPECT_EQ(info.trace_id, 0x1122334455667788U);
  EXPECT_THAT(info.cpu_stats, ElementsAre("CPU: 2\nentries: 3\noverrun: 4\n"));
  EXPECT_THAT(info.notes, IsEmpty());
  ASSERT_EQ(info.buffers.size(), 1U);
  const TraceDatBuffer& top = info.buffers[0];
  EXPECT_EQ(top.clock, "local");
  ASSERT_EQ(top.cpus.size(), 4U);  // by position: 1 has no data
  EXPECT_EQ(top.cpus[1].size, 0U);
  EXPECT_EQ(read_all(reader, top, 2), two);
  EXPECT_EQ(read_all(reader, top, 3), three);
  for (const TraceDatCpu& cpu : top.cpus) EXPECT_EQ(cpu.offset % 4096, 0U);
}

TEST_F(TraceDatFile, AlignsToTheSizeOfTheSubbufs) {
  const std::string path = dir_.file("trace.dat");
  const Bytes data = numbered_subbufs(5, 65536);
  must(write(path, {{0, data}, {1, data}}, test::sample_metadata(65536)));
  const TraceDatReader reader = must(TraceDatReader::open(path));
  EXPECT_EQ(reader.info().page_size, 65536U);
  for (std::size_t cpu : {0, 1}) {
    EXPECT_EQ(reader.info().buffers[0].cpus[cpu].offset % 65536, 0U);
    EXPECT_EQ(read_all(reader, reader.info().buffers[0], cpu), data);
  }
}

TEST_F(TraceDatFile, CopiesFromTheMiddleOfASource) {
  const Bytes data = numbered_subbufs(10);
  const Fd fd = memory_file(data);
  const CpuSource source{.cpu = 0, .fd = fd.get(), .offset = 2 * 4096, .size = 3 * 4096};
  TraceDatWriter writer = must(TraceDatWriter::create(dir_.file("x")));
  must(writer.write(test::sample_metadata(), {}, std::span(&source, 1)));
  const TraceDatReader reader = must(TraceDatReader::open(dir_.file("x")));
  const Bytes wanted(data.begin() + 2 * 4096, data.begin() + 5 * 4096);
  EXPECT_EQ(read_all(reader, reader.info().buffers[0], 0), wanted);
}

TEST_F(TraceDatFile, MakesAFileOfARecordingWithoutAnyData) {
  must(write(dir_.file("empty"), {}));
  EXPECT_EQ(must(TraceDatReader::open(dir_.file("empty"))).info().buffers[0].cpus.size(), 1U);
}

TEST_F(TraceDatFile, RefusesOutputsThatCannotBeOne) {
  ASSERT_EQ(::mkfifo(dir_.file("fifo").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("nowhere", dir_.file("dangling").c_str()), 0);
  for (const std::string& path :
       {dir_.path().string(), dir_.file("fifo"), dir_.file("dangling"), std::string("/dev/null"),
        dir_.file("no/such/place"), dir_.file("fifo/x"), std::string()}) {
    auto writer = TraceDatWriter::create(path);
    ASSERT_FALSE(writer) << path;
    EXPECT_THAT(writer.error().message, HasSubstr(path));
  }
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(TraceDatFile, RefusesDataThatIsNotWholeOrGivenTwice) {
  test::write_text(dir_.file("old"), "what was there before");
  EXPECT_FALSE(write(dir_.file("old"), {{0, Bytes(4000)}}));
  EXPECT_FALSE(write(dir_.file("old"), {{0, Bytes(4096)}, {0, Bytes(4096)}}));
  EXPECT_FALSE(write(dir_.file("old"), {{-1, Bytes(4096)}}));
  Metadata without = test::sample_metadata();
  without.header_page.clear();
  const auto status = write(dir_.file("old"), {{0, Bytes(4096)}}, without);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("header_page"));
  EXPECT_EQ(test::read_text(dir_.file("old")), "what was there before");
  EXPECT_THAT(files(), ElementsAre("old"));
}

TEST_F(TraceDatFile, LeavesNothingOfAnInterruptedWriting) {
  const auto status = write(dir_.file("x"), {{0, numbered_subbufs(3)}}, test::sample_metadata(),
                            [](std::uint64_t, std::uint64_t) { return false; });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::interrupted);
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(TraceDatFile, TellsTheProgressUpToTheEnd) {
  std::uint64_t last = 0;
  std::uint64_t all = 0;
  must(write(dir_.file("x"), {{0, numbered_subbufs(3)}, {1, numbered_subbufs(2)}},
             test::sample_metadata(), [&](std::uint64_t done, std::uint64_t total) {
               EXPECT_GT(done, last);
               last = done;
               all = total;
               return true;
             }));
  EXPECT_EQ(last, 5 * 4096U);
  EXPECT_EQ(all, 5 * 4096U);
}

TEST_F(TraceDatFile, RefusesASourceThatIsShorterThanTold) {
  const Fd fd = memory_file(Bytes(4096));
  const CpuSource source{.cpu = 0, .fd = fd.get(), .offset = 0, .size = 8192};
  TraceDatWriter writer = must(TraceDatWriter::create(dir_.file("x")));
  EXPECT_FALSE(writer.write(test::sample_metadata(), {}, std::span(&source, 1)));
}

TEST_F(TraceDatFile, ReplacesTheFileBehindASymlinkAndKeepsItsMode) {
  test::write_text(dir_.file("real"), "old");
  ASSERT_EQ(::chmod(dir_.file("real").c_str(), 0640), 0);
  ASSERT_EQ(::symlink("real", dir_.file("link").c_str()), 0);
  must(write(dir_.file("link"), {{0, numbered_subbufs(1)}}));
  EXPECT_TRUE(fs::is_symlink(dir_.file("link")));
  EXPECT_EQ(must(TraceDatReader::open(dir_.file("real"))).info().version, 6);
  struct stat now{};
  ASSERT_EQ(::stat(dir_.file("real").c_str(), &now), 0);
  EXPECT_EQ(now.st_mode & 0777U, 0640U);
}

TEST_F(TraceDatFile, ReadsWhatIsThereOfAFileThatWasCutOff) {
  const std::string path = dir_.file("x");
  must(write(path, {{0, numbered_subbufs(10)}, {1, numbered_subbufs(10)}}));
  fs::resize_file(path, fs::file_size(path) - 3 * 4096 - 100);
  const TraceDatReader reader = must(TraceDatReader::open(path));
  EXPECT_EQ(reader.info().buffers[0].cpus[0].size, 10 * 4096U);
  EXPECT_EQ(reader.info().buffers[0].cpus[1].size, 7 * 4096U - 100);
  EXPECT_EQ(reader.info().notes.size(), 1U);
}

test::V7File sample_v7(bool zstd) {
  test::V7File file;
  file.metadata = test::sample_metadata();
  file.metadata.kallsyms = "ffffffff81000000 T start\n";
  file.zstd = zstd;
  file.buffers.push_back(
      {.name = "", .cpus = {{7, numbered_subbufs(10)}, {2, numbered_subbufs(4)}}});
  file.buffers.push_back(
      {.name = "other", .subbuf_size = 8192, .cpus = {{0, numbered_subbufs(5, 8192)}}});
  return file;
}

class TraceDatVersion7 : public ::testing::TestWithParam<bool> {};

TEST_P(TraceDatVersion7, ReadsSectionsOptionsAndBuffers) {
  const test::V7File file = sample_v7(GetParam());
  const TraceDatReader reader = must(TraceDatReader::open(memory_file(test::make_v7(file)), "v7"));
  const TraceDatInfo& info = reader.info();
  EXPECT_EQ(info.version, 7);
  EXPECT_EQ(info.compression, GetParam() ? "zstd" : "none");
  EXPECT_EQ(info.metadata.kallsyms, file.metadata.kallsyms);
  EXPECT_EQ(info.metadata.formats.size(), 2U);
  ASSERT_EQ(info.buffers.size(), 2U);
  EXPECT_EQ(info.buffers[0].name, "");
  EXPECT_EQ(info.buffers[0].cpus[0].cpu, 7);
  EXPECT_EQ(read_all(reader, info.buffers[0], 0), file.buffers[0].cpus[0].data);
  EXPECT_EQ(read_all(reader, info.buffers[0], 1), file.buffers[0].cpus[1].data);
  EXPECT_EQ(info.buffers[1].name, "other");
  EXPECT_EQ(info.buffers[1].layout.size(), 8192U);
  EXPECT_EQ(read_all(reader, info.buffers[1], 0), file.buffers[1].cpus[0].data);
}
INSTANTIATE_TEST_SUITE_P(PlainAndZstd, TraceDatVersion7, ::testing::Bool());

TEST(TraceDatReader, RefusesWhatIsNoTraceDat) {
  for (const std::string_view text : {"", "x", "\x17\x08\x44tracin", "hello, this is some text"}) {
    auto reader = TraceDatReader::open(memory_file(as_bytes(text)), "some.dat");
    ASSERT_FALSE(reader);
    EXPECT_THAT(reader.error().message, HasSubstr("some.dat"));
  }
}

TEST(TraceDatReader, TellsTheByteWhereAFileEnds) {
  const Bytes whole = test::make_v7(sample_v7(false));
  for (const std::size_t size : {12U, 20U, 40U, 100U, 400U}) {
    auto reader = TraceDatReader::open(memory_file(std::span(whole).first(size)), "short.dat");
    ASSERT_FALSE(reader) << size;
    EXPECT_THAT(reader.error().message, HasSubstr("short.dat: at byte")) << size;
  }
}

TEST(TraceDatReader, SkipsAChunkThatDoesNotDecompress) {
  const test::V7File file = sample_v7(true);
  Bytes bytes = test::make_v7(file);
  const TraceDatReader good = must(TraceDatReader::open(memory_file(bytes), "v7"));
  // CPU 7 has 10 sub-buffers in chunks of 3: spoil the first chunk's frame.
  bytes[good.info().buffers[0].cpus[0].offset + 4 + 8] ^= std::byte{0xff};
  const TraceDatReader reader = must(TraceDatReader::open(memory_file(bytes), "v7"));
  auto source = must(reader.source(reader.info().buffers[0], reader.info().buffers[0].cpus[0]));
  EXPECT_FALSE(source->next());
  int subbufs = 0;
  while (!must(source->next()).bytes.empty()) ++subbufs;
  EXPECT_EQ(subbufs, 7);
}

// No number in a file is believed: nothing is read out of range, no memory is taken for a lie.
TEST(TraceDatReader, SurvivesMutatedFiles) {
  std::mt19937 random(7);
  const std::vector<Bytes> samples = {test::make_v7(sample_v7(false)),
                                      test::make_v7(sample_v7(true))};
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = samples[round % samples.size()];
    const std::size_t reach = round % 3 == 0 ? bytes.size() : 3000;
    for (int i = 0; i < 1 + round % 5; ++i) {
      const std::size_t at = random() % std::min(reach, bytes.size());
      bytes[at] = round % 2 == 0 ? std::byte{0xff} : static_cast<std::byte>(random());
    }
    auto reader = TraceDatReader::open(memory_file(bytes), "mutated");
    if (!reader) continue;
    for (const TraceDatBuffer& buffer : reader->info().buffers) {
      for (const TraceDatCpu& cpu : buffer.cpus) {
        auto source = reader->source(buffer, cpu);
        if (!source) continue;
        for (int i = 0; i < 1000; ++i) {
          auto piece = (*source)->next();
          if (piece && piece->bytes.empty()) break;
        }
      }
    }
  }
}

}  // namespace
}  // namespace vtrace
