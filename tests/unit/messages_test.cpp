#include "common/messages.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <tuple>

#include "tests/support/bytes.h"

namespace vtrace {
namespace {

using test::why;

CpuCounts counts_of(std::uint32_t cpu) {
  CpuCounts counts;
  counts.cpu = cpu;
  counts.bytes_sent = 0x1000000001;
  counts.subbufs_sent = 2;
  counts.bytes_pending = 3;
  counts.bytes_discarded = 4;
  counts.entries = 5;
  counts.read_events = 6;
  counts.overrun = 7;
  counts.commit_overrun = 8;
  counts.dropped_events = 9;
  counts.end_fence_sent = true;
  counts.error = "ended by ENODEV";
  counts.stats_text = "entries: 5\n";
  return counts;
}

// One of each message, every field with a value of its own.
template <typename Message>
Message example();
template <>
HostHello example() {
  return {7, "1.2.3"};
}
template <>
AgentHello example() {
  AgentHello m;
  m.protocol_version = 3;
  m.agent_version = "1.2.3";
  m.boot_id = "boot";
  m.agent_id = 0x1122334455667788;
  m.sysname = "Linux";
  m.nodename = "guest";
  m.kernel_release = "6.12.0";
  m.machine = "x86_64";
  m.cpus_possible = "0-7";
  m.cpus_present = "0-3";
  m.cpus_online = "0,2-3";
  m.cpus_with_port = "0,3";
  m.page_size = 4096;
  m.subbuf_size = 8192;
  m.clocks = "[local] boot";
  m.tracers = "nop";
  m.tracefs = "/tracefs";
  m.instance = "virtio-trace";
  m.state = AgentState::draining;
  m.run_id = 99;
  m.notes = {"CPU 2 has no port", ""};
  return m;
}
template <>
Configure example() {
  return {
      {{"sched", "sched_switch", "prev_pid != 0"}, {"irq", "", ""}}, "function", "boot", 1U << 20U};
}
template <>
Configured example() {
  return {"virtio-trace", "0-1", 4096, "\tfield: …\n", "local [boot]\n", 1U << 21U, {"a", "b"}};
}
template <>
Start example() {
  return {0x1122334455667788, StartTarget::instance};
}
template <>
Started example() {
  return {5, "0-3", 65536, "\tfield: …\n", {"note"}};
}
template <>
Stop example() {
  return {0xffffffffffffffff};
}
template <>
Stopped example() {
  return {5, true, {counts_of(0), counts_of(511)}, {"note"}};
}
template <>
StatusQuery example() {
  return {};
}
template <>
StatusReport example() {
  return {AgentState::recording, 5, 1'000'000'007, "top level", {counts_of(1)}, {}};
}
template <>
GetMetadata example() {
  return {kMetadataFormats | kMetadataSystem};
}
template <>
MetadataChunk example() {
  return {1000, 900, 5000, std::string("\0\x01\xff chunk", 9)};
}
template <>
Ping example() {
  return {};
}
template <>
Pong example() {
  return {};
}
template <>
AgentError example() {
  return {AgentErrorCode::bad_setting, "unknown event sched:nonsense"};
}
template <>
Unsupported example() {
  return {0x1234, 2};
}

template <typename Message>
Bytes payload_of(const Message& message) {
  ByteWriter out;
  put(out, message);
  return out.take();
}

template <typename Message>
class EachMessage : public ::testing::Test {};
using Messages = ::testing::Types<HostHello, AgentHello, Configure, Configured, Start, Started,
                                  Stop, Stopped, StatusQuery, StatusReport, GetMetadata,
                                  MetadataChunk, Ping, Pong, AgentError, Unsupported>;
TYPED_TEST_SUITE(EachMessage, Messages);

TYPED_TEST(EachMessage, ReadsBackWhatWasWritten) {
  ControlDecoder decoder(ControlDecoder::LegacyOrders::accepted);
  decoder.feed(encode_message(42, example<TypeParam>()));
  const auto item = decoder.next();
  ASSERT_TRUE(item);
  const Frame& frame = std::get<Frame>(*item);
  EXPECT_EQ(frame.version, kProtocolVersion);
  EXPECT_EQ(frame.type, static_cast<std::uint16_t>(TypeParam::kType));
  EXPECT_EQ(frame.request_id, 42U);
  const auto message = decode_message<TypeParam>(frame);
  ASSERT_TRUE(message) << why(message);
  // The payload holds every field, so equal payloads are equal messages.
  EXPECT_EQ(payload_of(*message), payload_of(example<TypeParam>()));
}

TYPED_TEST(EachMessage, SkipsWhatANewerSenderAdds) {
  Frame frame;
  frame.payload = payload_of(example<TypeParam>());
  frame.payload.insert(frame.payload.end(), 13, std::byte{0xff});
  const auto message = decode_message<TypeParam>(frame);
  ASSERT_TRUE(message) << why(message);
  EXPECT_EQ(payload_of(*message), payload_of(example<TypeParam>()));
}

TYPED_TEST(EachMessage, IsAnErrorWhenCutOffAnywhere) {
  Frame frame;
  const Bytes whole = payload_of(example<TypeParam>());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    frame.payload.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const auto message = decode_message<TypeParam>(frame);
    ASSERT_FALSE(message) << "cut to " << size << " of " << whole.size();
    EXPECT_EQ(message.error().message, "a control message is cut short");
  }
}

// A changed byte may give another message, but never a crash or a large one.
TYPED_TEST(EachMessage, TakesNoHarmFromAnyChangedByte) {
  const Bytes whole = payload_of(example<TypeParam>());
  Frame frame;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned value : {0x00U, 0x01U, 0x7fU, 0x80U, 0xffU}) {
      frame.payload = whole;
      frame.payload[at] = static_cast<std::byte>(value);
      const auto message = decode_message<TypeParam>(frame);
      if (!message) continue;
      EXPECT_LE(payload_of(*message).size(), whole.size() + 16);
    }
  }
}

TEST(Messages, KeepTheFieldsOfAHello) {
  Frame frame;
  frame.payload = payload_of(example<AgentHello>());
  const auto hello = decode_message<AgentHello>(frame);
  ASSERT_TRUE(hello) << why(hello);
  EXPECT_EQ(hello->agent_id, 0x1122334455667788U);
  EXPECT_EQ(hello->cpus_online, "0,2-3");
  EXPECT_EQ(hello->cpus_with_port, "0,3");
  EXPECT_EQ(hello->subbuf_size, 8192U);
  EXPECT_EQ(hello->state, AgentState::draining);
  EXPECT_EQ(hello->notes, (std::vector<std::string>{"CPU 2 has no port", ""}));
}

TEST(Messages, KeepTheCountsOfEachCpu) {
  Frame frame;
  frame.payload = payload_of(example<Stopped>());
  const auto stopped = decode_message<Stopped>(frame);
  ASSERT_TRUE(stopped) << why(stopped);
  EXPECT_TRUE(stopped->complete);
  ASSERT_EQ(stopped->cpus.size(), 2U);
  const CpuCounts& counts = stopped->cpus[1];
  EXPECT_EQ(counts.cpu, 511U);
  EXPECT_EQ(counts.bytes_sent, 0x1000000001U);
  EXPECT_EQ(counts.bytes_discarded, 4U);
  EXPECT_EQ(counts.recorded(), 5U + 6 + 7);
  EXPECT_EQ(counts.lost(), 7U + 8 + 9);
  EXPECT_TRUE(counts.end_fence_sent);
  EXPECT_EQ(counts.stats_text, "entries: 5\n");
}

TEST(Messages, LetTheRecordOfACpuGrow) {
  // The record of CPU 1 as a newer agent sends it: eight bytes longer.
  const Bytes payload = payload_of(example<StatusReport>());
  const std::size_t length_at = 4 + 8 + 8 + 4 + std::string_view("top level").size() + 4;
  const std::uint32_t length = load_u32(std::span(payload).subspan(length_at));
  ByteWriter out;
  out.raw(std::span(payload).first(length_at));
  out.u32(length + 8);
  out.raw(std::span(payload).subspan(length_at + 4, length));
  out.u64(12345);
  out.raw(std::span(payload).subspan(length_at + 4 + length));
  Frame frame;
  frame.payload = out.take();
  const auto report = decode_message<StatusReport>(frame);
  ASSERT_TRUE(report) << why(report);
  EXPECT_EQ(payload_of(*report), payload);
}

TEST(Messages, DoNotBelieveAHostileCount) {
  for (const std::uint32_t count : {0xffffffffU, 0x80000000U, 65537U, 65536U}) {
    ByteWriter out;
    out.u32(count);
    out.raw("few");
    Frame frame;
    frame.payload = out.take();
    EXPECT_FALSE(decode_message<Configure>(frame)) << count;

    ByteWriter stopped;
    stopped.u64(1);
    stopped.u8(1);
    stopped.u32(count);
    stopped.u32(0);
    frame.payload = stopped.take();
    EXPECT_FALSE(decode_message<Stopped>(frame)) << count;
  }
}

TEST(Messages, OfALargeMachineFitAFrame) {
  Stopped stopped = example<Stopped>();
  stopped.cpus.clear();
  for (std::uint32_t cpu = 0; cpu < 1024; ++cpu) {
    CpuCounts counts = counts_of(cpu);
    counts.stats_text.assign(400, 's');
    stopped.cpus.push_back(counts);
  }
  EXPECT_LT(payload_of(stopped).size(), kMaxPayload);
}

}  // namespace
}  // namespace vtrace
