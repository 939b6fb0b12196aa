// The agent's runs on a real tracefs: every event arrives or is counted.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "common/metadata.h"
#include "host-cli/subbuf_source.h"
#include "tests/guest/agent_rig.h"
#include "tests/support/must.h"

namespace vtrace::test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kRun = 0x1122334455667788;

Configure settings(std::uint64_t buffer_bytes, std::vector<EventSpec> events = {}) {
  Configure configure;
  configure.buffer_bytes = buffer_bytes;
  configure.events = std::move(events);
  return configure;
}

std::map<int, std::unique_ptr<PortReader>> read_all(const AgentRig& rig) {
  std::map<int, std::unique_ptr<PortReader>> readers;
  for (const int cpu : rig.cpus()) readers[cpu] = std::make_unique<PortReader>(rig.fifo(cpu));
  return readers;
}

// Everything that a complete run promises of one CPU.
void expect_complete(const SubbufLayout& layout, const PortStream& stream,
                     const CpuCounts& counts) {
  SCOPED_TRACE(fmt::format("cpu {}: {}", counts.cpu, counts.stats_text));
  ASSERT_TRUE(stream.begin.has_value());
  ASSERT_TRUE(stream.end.has_value());
  EXPECT_EQ(stream.behind, 0U);
  EXPECT_EQ(stream.end->cpu, counts.cpu);
  EXPECT_EQ(stream.end->subbufs, stream.subbufs.size());
  EXPECT_EQ(stream.end->bytes, stream.subbufs.size() * layout.size());
  EXPECT_EQ(counts.bytes_sent, stream.end->bytes);
  EXPECT_EQ(counts.subbufs_sent, stream.end->subbufs);
  EXPECT_EQ(counts.bytes_pending, 0U);
  EXPECT_EQ(counts.bytes_discarded, 0U);
  EXPECT_TRUE(counts.end_fence_sent);
  EXPECT_EQ(counts.error, "");
  EXPECT_EQ(counts.entries, 0U);
  EXPECT_EQ(stream.events(layout), counts.read_events);
}

TEST(AgentRun, DeliversEveryEventOfEveryCpuAndCountsThem) {
  AgentRig rig;
  auto readers = read_all(rig);
  const auto configured = rig.ask<Configured>(settings(8U << 20U));
  EXPECT_EQ(configured.cpus, format_cpu_list(rig.cpus()));
  const auto started = rig.ask<Started>(Start{kRun, StartTarget::instance});
  EXPECT_EQ(started.run_id, kRun);
  EXPECT_EQ(started.cpus, format_cpu_list(rig.cpus()));
  const SubbufLayout layout = must(parse_header_page(started.header_page));
  EXPECT_EQ(layout.size(), started.subbuf_size);
  constexpr int kLines = 10000;
  for (const int cpu : rig.cpus()) rig.write_markers(cpu, kLines);
  const auto stopped = rig.ask<Stopped>(Stop{kRun});
  EXPECT_TRUE(stopped.complete);
  ASSERT_EQ(stopped.cpus.size(), rig.cpus().size());
  for (const CpuCounts& counts : stopped.cpus) {
    const int cpu = static_cast<int>(counts.cpu);
    const PortStream stream = cut_run(layout, readers[cpu]->settled(), kRun);
    expect_complete(layout, stream, counts);
    EXPECT_EQ(counts.recorded(), kLines);
    EXPECT_EQ(counts.lost(), 0U);
    std::string text;
    for (const Bytes& subbuf : stream.subbufs) text += as_text(subbuf);
    for (const int line : {0, 1, kLines / 2, kLines - 1})
      EXPECT_THAT(text, HasSubstr(fmt::format("line {} of cpu {}\n", line, cpu)));
  }
  EXPECT_FALSE(rig.instance_exists()) << "the run's instance is removed at its end";
}

TEST(AgentRun, EventsOfTheSchedulerArriveExactlyToo) {
  AgentRig rig;
  auto readers = read_all(rig);
  (void)rig.ask<Configured>(settings(8U << 20U, {{"sched", "", ""}, {"irq", "", ""}}));
  const auto started = rig.ask<Started>(Start{kRun, StartTarget::instance});
  const SubbufLayout layout = must(parse_header_page(started.header_page));
  for (int round = 0; round < 20; ++round) {
    for (const int cpu : rig.cpus()) rig.write_markers(cpu, 100, round * 100);
    std::this_thread::sleep_for(Duration{20});
  }
  const auto stopped = rig.ask<Stopped>(Stop{kRun});
  EXPECT_TRUE(stopped.complete);
  for (const CpuCounts& counts : stopped.cpus) {
    const PortStream stream =
        cut_run(layout, readers[static_cast<int>(counts.cpu)]->settled(), kRun);
    expect_complete(layout, stream, counts);
    EXPECT_GE(counts.recorded(), 2000U);
    EXPECT_EQ(counts.read_events + counts.overrun, counts.recorded());
  }
}

TEST(AgentRun, AQuietCpusEventsArriveWithinTheFlushInterval) {
  AgentRig rig({.arguments = {"--flush-interval", "200ms"}});
  const int cpu = rig.cpus().front();
  PortReader reader(rig.fifo(cpu));
  (void)rig.ask<Configured>(Configure{});
  const auto started = rig.ask<Started>(Start{kRun, StartTarget::instance});
  const SubbufLayout layout = must(parse_header_page(started.header_page));
  rig.write_markers(cpu, 1);
  EXPECT_TRUE(eventually([&] { return cut_run(layout, reader.bytes(), kRun).events(layout) == 1; },
                         Duration{600}));
  const auto status = rig.ask<StatusReport>(StatusQuery{});
  EXPECT_EQ(status.state, AgentState::recording);
  EXPECT_EQ(status.run_id, kRun);
  EXPECT_EQ(status.buffer, rig.instance());
}

TEST(AgentRun, ARunWithoutAnyEventHasItsFencesAndNothingElse) {
  AgentRig rig;
  auto readers = read_all(rig);
  (void)rig.ask<Configured>(Configure{});
  const auto started = rig.ask<Started>(Start{kRun, StartTarget::instance});
  const SubbufLayout layout = must(parse_header_page(started.header_page));
  const auto stopped = rig.ask<Stopped>(Stop{kRun});
  EXPECT_TRUE(stopped.complete);
  for (const CpuCounts& counts : stopped.cpus) {
    const PortStream stream =
        cut_run(layout, readers[static_cast<int>(counts.cpu)]->settled(), kRun);
    expect_complete(layout, stream, counts);
    EXPECT_EQ(stream.subbufs.size(), 0U);
  }
}

TEST(AgentRun, WhatOverflowsTheRingBufferIsCounted) {
  AgentRig rig;  // nobody reads
  const int cpu = rig.cpus().front();
  (void)rig.ask<Configured>(settings(64U << 10U));
  const auto started = rig.ask<Started>(Start{kRun, StartTarget::instance});
  const SubbufLayout layout = must(parse_header_page(started.header_page));
  constexpr int kLines = 60000;
  rig.write_markers(cpu, kLines);
  const auto before = std::chrono::steady_clock::now();
  const auto stopped = rig.ask<Stopped>(Stop{kRun}, Duration{4000});
  EXPECT_LT(std::chrono::steady_clock::now() - before, Duration{2000});
  EXPECT_FALSE(stopped.complete);
  // Now the host comes and reads: what was pending follows, then the end fence.
  PortReader reader(rig.fifo(cpu));
  EXPECT_TRUE(eventually([&] { return cut_run(layout, reader.bytes(), kRun).end.has_value(); }));
  std::map<int, std::unique_ptr<PortReader>> others;
  for (const int other : rig.cpus()) {
    if (other != cpu) others[other] = std::make_unique<PortReader>(rig.fifo(other));
  }
  EXPECT_TRUE(
      eventually([&] { return rig.ask<StatusReport>(StatusQuery{}).state == AgentState::idle; }));
  const auto status = rig.ask<StatusReport>(StatusQuery{});
  const auto& counts = status.cpus.front();
  const PortStream stream = cut_run(layout, reader.settled(), kRun);
  EXPECT_EQ(counts.recorded(), kLines);
  EXPECT_GT(counts.overrun, 0U);
  EXPECT_EQ(counts.entries, 0U);
  EXPECT_EQ(stream.events(layout) + counts.overrun, kLines);
  EXPECT_EQ(stream.end->bytes, counts.bytes_sent);
}

// All chunks of an answer to GetMetadata, which are one zstd frame.
Metadata receive_metadata(AgentRig& rig, std::uint32_t id) {
  std::string compressed;
  for (;;) {
    const auto chunk = rig.expect<MetadataChunk>(rig.receive(id, Duration{30000}));
    EXPECT_EQ(chunk.offset, compressed.size());
    EXPECT_LE(chunk.data.size(), 64U << 10U);
    compressed += chunk.data;
    if (compressed.size() < chunk.total_bytes) continue;
    Bytes content(chunk.content_bytes);
    must(zstd_decompress(as_bytes(compressed), content, "metadata"));
    return must(decode_metadata(content));
  }
}

TEST(AgentRun, MetadataCarriesEveryFormatAndTheRecordedBuffersHeader) {
  AgentRig rig;
  (void)rig.ask<Configured>(Configure{});
  const Metadata metadata = receive_metadata(
      rig, rig.send(GetMetadata{kMetadataFormats | kMetadataKallsyms | kMetadataTasks |
                                kMetadataPrintk | kMetadataSystem}));
  const auto read = [&](const std::string& file) { return must(read_file(file)); };
  EXPECT_EQ(metadata.header_page, read(rig.instance_path() + "/events/header_page"));
  EXPECT_EQ(metadata.kallsyms, read("/proc/kallsyms"));
  std::set<std::string> files;
  for (const EventFormat& event : metadata.formats) {
    const std::string file =
        fmt::format("{}/events/{}/{}/format", tracefs_root(), event.system, event.name);
    EXPECT_EQ(event.text, read(file));
    files.insert(file);
  }
  std::size_t formats = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(tracefs_root() + "/events"))
    formats += entry.path().filename() == "format" ? 1 : 0;
  EXPECT_GT(formats, 500U);
  EXPECT_EQ(files.size(), formats);
}

}  // namespace
}  // namespace vtrace::test
