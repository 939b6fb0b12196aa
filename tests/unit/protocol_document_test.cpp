// docs/protocol.md and the code say the same: the vectors and numbers are read from the document.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "common/fence.h"
#include "common/messages.h"
#include "common/metadata.h"
#include "tests/support/bytes.h"
#include "tests/support/control_streams.h"
#include "tests/support/temp_dir.h"

namespace vtrace {
namespace {

using test::to_hex;
using test::why;

std::string document() {
  return test::read_text(std::string(VTRACE_SOURCE_DIR) + "/docs/protocol.md");
}

// The blocks "```vector NAME" … "```" of the document.
std::map<std::string, Bytes> vectors() {
  std::map<std::string, Bytes> found;
  std::istringstream lines(document());
  std::string name;
  std::string hex;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```vector ")) {
      name = line.substr(10);
      hex.clear();
    } else if (line == "```" && !name.empty()) {
      EXPECT_TRUE(found.emplace(name, test::from_hex(hex)).second) << name << " twice";
      name.clear();
    } else if (!name.empty()) {
      hex += line;
    }
  }
  return found;
}

Bytes vector_of(const std::string& name) {
  const auto all = vectors();
  const auto found = all.find(name);
  EXPECT_NE(found, all.end()) << "no vector \"" << name << "\" in docs/protocol.md";
  return found == all.end() ? Bytes{} : found->second;
}

constexpr std::uint64_t kRun = 0x1122334455667788;
constexpr const char* kHeaderPage = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n";

// Encodes to the vector, and decodes from it to the same.
template <typename Message>
void expect_vector(const std::string& name, std::uint32_t id, const Message& message) {
  const Bytes expected = vector_of("frame " + name);
  EXPECT_EQ(to_hex(encode_message(id, message)), to_hex(expected)) << name;
  ControlDecoder decoder(ControlDecoder::LegacyOrders::ignored);
  decoder.feed(expected);
  const auto item = decoder.next();
  ASSERT_TRUE(item) << name;
  const auto decoded = decode_message<Message>(std::get<Frame>(*item));
  ASSERT_TRUE(decoded) << name << ": " << why(decoded);
  EXPECT_EQ(to_hex(encode_message(id, *decoded)), to_hex(expected)) << name;
  EXPECT_EQ(decoder.skipped_bytes(), 0U);
}

TEST(ProtocolDocument, HasTheFramesOfTheHost) {
  expect_vector("hello", 1, HostHello{1, "0.1.0"});
  expect_vector(
      "configure", 2,
      Configure{
          {{"sched", "sched_switch", "prev_pid != 0"}, {"irq", "", ""}}, "nop", "boot", 1U << 20U});
  expect_vector("start", 3, Start{kRun, StartTarget::instance});
  expect_vector("stop", 4, Stop{kRun});
  expect_vector("status", 5, StatusQuery{});
  expect_vector("get_metadata", 6, GetMetadata{kMetadataFormats | kMetadataSystem});
  expect_vector("ping", 7, Ping{});
}

TEST(ProtocolDocument, HasTheFramesOfTheAgent) {
  AgentHello hello;
  hello.agent_version = "0.1.0";
  hello.boot_id = "boot-id";
  hello.agent_id = 0x0102030405060708;
  hello.sysname = "Linux";
  hello.nodename = "guest";
  hello.kernel_release = "6.12.0";
  hello.machine = "x86_64";
  hello.cpus_possible = "0-3";
  hello.cpus_present = "0-3";
  hello.cpus_online = "0,2-3";
  hello.cpus_with_port = "0,2";
  hello.page_size = 4096;
  hello.subbuf_size = 8192;
  hello.clocks = "[local] boot";
  hello.tracers = "nop";
  hello.tracefs = "/sys/kernel/tracing";
  hello.instance = "virtio-trace";
  hello.state = AgentState::draining;
  hello.run_id = kRun;
  hello.notes = {"CPU 3 has no port"};
  expect_vector("agent_hello", 1, hello);
  expect_vector(
      "configured", 2,
      Configured{"virtio-trace", "0,2", 4096, kHeaderPage, "local [boot]", 1U << 20U, {}});
  expect_vector("started", 3, Started{kRun, "0,2", 4096, kHeaderPage, {"a note"}});
  expect_vector("metadata_chunk", 6,
                MetadataChunk{5, 0, 300, std::string("\x28\xb5\x2f\xfd\0", 5)});
  expect_vector("pong", 7, Pong{});
  expect_vector("error", 2, AgentError{AgentErrorCode::bad_setting, "unknown event nonsense:x"});
  expect_vector("unsupported", 9, Unsupported{0x42, 1});
}

TEST(ProtocolDocument, HasTheCountsOfTheAgent) {
  CpuCounts counts;
  counts.cpu = 2;
  counts.bytes_sent = 8192;
  counts.subbufs_sent = 2;
  counts.entries = 1;
  counts.read_events = 2;
  counts.overrun = 3;
  counts.commit_overrun = 4;
  counts.dropped_events = 5;
  counts.end_fence_sent = true;
  counts.stats_text = "entries: 1\n";
  expect_vector("stopped", 4, Stopped{kRun, true, {counts}, {}});
  counts.cpu = 0;
  counts.bytes_sent = 4096;
  counts.subbufs_sent = 1;
  counts.bytes_pending = 4096;
  counts.end_fence_sent = false;
  counts.error = "gone";
  counts.stats_text.clear();
  expect_vector(
      "status_report", 5,
      StatusReport{AgentState::recording, kRun, 1'000'000'007, "top level", {counts}, {}});
}

TEST(ProtocolDocument, HasTheMetadata) {
  Metadata metadata;
  metadata.header_page = kHeaderPage;
  metadata.sysname = "Linux";
  metadata.formats = {{"sched", "sched_switch", "name: sched_switch\n"}};
  EXPECT_EQ(to_hex(encode_metadata(metadata)), to_hex(vector_of("metadata")));
  const auto decoded = decode_metadata(vector_of("metadata"));
  ASSERT_TRUE(decoded) << why(decoded);
  EXPECT_EQ(to_hex(encode_metadata(*decoded)), to_hex(vector_of("metadata")));
}

TEST(ProtocolDocument, HasTheFences) {
  const SubbufLayout layout{0, 8, 8, 16, 64};
  for (const auto& [name, fence] :
       {std::pair{"fence begin", Fence{FenceKind::begin, kRun, 3, 0, 0}},
        std::pair{"fence end", Fence{FenceKind::end, kRun, 3, 40960, 512}}}) {
    EXPECT_EQ(to_hex(encode_fence(layout, fence)), to_hex(vector_of(name)));
    EXPECT_EQ(decode_fence(layout, vector_of(name)), fence);
  }
}

TEST(ProtocolDocument, HasAStreamThatDecodesAsItSays) {
  const Bytes stream = vector_of("stream");
  const Frame ping{kProtocolVersion, 7, 7, {}};
  const test::Decoded expected{{LegacyOrder::start, LegacyOrder::stop, ping, LegacyOrder::start},
                               28};
  const std::span<const std::byte> whole(stream);
  EXPECT_EQ(test::decode_in_pieces(std::span(&whole, 1), true), expected);
}

TEST(ProtocolDocument, HasNoVectorThatIsNotTested) {
  const std::set<std::string> known = {"frame hello",
                                       "frame configure",
                                       "frame start",
                                       "frame stop",
                                       "frame status",
                                       "frame get_metadata",
                                       "frame ping",
                                       "frame agent_hello",
                                       "frame configured",
                                       "frame started",
                                       "frame stopped",
                                       "frame status_report",
                                       "frame metadata_chunk",
                                       "frame pong",
                                       "frame error",
                                       "frame unsupported",
                                       "metadata",
                                       "fence begin",
                                       "fence end",
                                       "stream"};
  std::set<std::string> found;
  for (const auto& [name, bytes] : vectors()) found.insert(name);
  EXPECT_EQ(found, known);
}

TEST(ProtocolDocument, NamesEveryMessageWithItsNumber) {
  const std::map<std::string, MessageType> types = {{"hello", MessageType::hello},
                                                    {"configure", MessageType::configure},
                                                    {"start", MessageType::start},
                                                    {"stop", MessageType::stop},
                                                    {"status", MessageType::status},
                                                    {"get_metadata", MessageType::get_metadata},
                                                    {"ping", MessageType::ping},
                                                    {"agent_hello", MessageType::agent_hello},
                                                    {"configured", MessageType::configured},
                                                    {"started", MessageType::started},
                                                    {"stopped", MessageType::stopped},
                                                    {"status_report", MessageType::status_report},
                                                    {"metadata_chunk", MessageType::metadata_chunk},
                                                    {"pong", MessageType::pong},
                                                    {"error", MessageType::error},
                                                    {"unsupported", MessageType::unsupported}};
  const std::string text = document();
  for (const auto& [name, type] : types) {
    const std::string row =
        "\n| " + name + " | 0x" + to_hex(std::array{static_cast<std::byte>(type)}) + " | ";
    EXPECT_NE(text.find(row), std::string::npos) << row;
  }
}

TEST(ProtocolDocument, NamesTheLimits) {
  const std::string text = document();
  EXPECT_NE(text.find("0 to 1,048,576"), std::string::npos);
  EXPECT_EQ(kMaxPayload, 1'048'576U);
  EXPECT_NE(text.find("at most 65,536"), std::string::npos);
}

}  // namespace
}  // namespace vtrace
