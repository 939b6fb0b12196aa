// The messages of the control protocol: what a frame's payload says. Pure.
// docs/protocol.md is normative. Every payload may grow at its end: fields that a decoder does not
// know are skipped, fields that an older sender left out read as 0 or empty where marked "since".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/frame.h"
#include "common/result.h"

namespace vtrace {

enum class MessageType : std::uint16_t {
  // host to agent
  hello = 1,
  configure = 2,
  start = 3,
  stop = 4,
  status = 5,
  get_metadata = 6,
  ping = 7,
  // agent to host: the answer to X is X + 0x80
  agent_hello = 0x81,
  configured = 0x82,
  started = 0x83,
  stopped = 0x84,
  status_report = 0x85,
  metadata_chunk = 0x86,
  pong = 0x87,
  error = 0xe0,
  unsupported = 0xe1,
};

// The host introduces itself; asks for an AgentHello.
struct HostHello {
  static constexpr MessageType kType = MessageType::hello;
  std::uint32_t protocol_version = kProtocolVersion;
  std::string host_version;
};

enum class AgentState : std::uint32_t { idle = 0, recording = 1, draining = 2 };

// The agent introduces itself: unasked (request id 0) when it starts, and in answer to HostHello.
struct AgentHello {
  static constexpr MessageType kType = MessageType::agent_hello;
  std::uint32_t protocol_version = kProtocolVersion;
  std::string agent_version;
  std::string boot_id;                                     // /proc/sys/kernel/random/boot_id
  std::uint64_t agent_id = 0;                              // drawn at each agent start, not 0
  std::string sysname, nodename, kernel_release, machine;  // uname(2)
  std::string cpus_possible, cpus_present, cpus_online;    // lists as "0,2-3"
  std::string cpus_with_port;  // CPUs that have a data port and a ring buffer: those that record
  std::uint32_t page_size = 0;
  std::uint32_t subbuf_size = 0;  // of the top-level buffer
  std::string clocks;             // text of trace_clock, the current one in brackets
  std::string tracers;            // text of available_tracers
  std::string tracefs;            // where it is mounted
  std::string instance;           // name of the agent's own instance
  AgentState state = AgentState::idle;
  std::uint64_t run_id = 0;        // of the run that is on or draining, else 0
  std::vector<std::string> notes;  // for the user: CPUs without a port, ports without a CPU, …
};

struct EventSpec {
  std::string system;  // never empty
  std::string event;   // empty: all of the system
  std::string filter;  // empty: none
};

// Makes the agent's own tracefs instance anew, set up as told, tracing off. A run that is on ends;
// its pending data is dropped.
struct Configure {
  static constexpr MessageType kType = MessageType::configure;
  std::vector<EventSpec> events;
  std::string tracer;              // empty: nop
  std::string clock;               // empty: as it comes
  std::uint64_t buffer_bytes = 0;  // per CPU; 0: as it comes
};

struct Configured {
  static constexpr MessageType kType = MessageType::configured;
  std::string instance;
  std::string cpus;  // the data ports that a start will use, as "0,2-3"
  std::uint32_t subbuf_size = 0;
  std::string header_page;         // text of the instance's events/header_page
  std::string clock;               // text of the instance's trace_clock
  std::uint64_t buffer_bytes = 0;  // per CPU, as the kernel took it
  std::vector<std::string> notes;
};

enum class StartTarget : std::uint32_t {
  top_level = 0,  // the top-level buffer as it is: neither settings nor tracing_on are touched
  instance = 1,   // the instance that Configure made; start and stop switch its tracing_on
};

struct Start {
  static constexpr MessageType kType = MessageType::start;
  std::uint64_t run_id = 0;  // drawn by the host, not 0; stands in the fences
  StartTarget target = StartTarget::top_level;
};

struct Started {
  static constexpr MessageType kType = MessageType::started;
  std::uint64_t run_id = 0;
  std::string cpus;
  std::uint32_t subbuf_size = 0;
  std::string header_page;  // of the buffer that is read
  std::vector<std::string> notes;
};

// Per CPU. Counts of the kernel are differences between now and the start of the run; events.
struct CpuCounts {
  std::uint32_t cpu = 0;
  // agent
  std::uint64_t bytes_sent = 0;       // handed to the port, fences not counted
  std::uint64_t subbufs_sent = 0;     // whole ones among them
  std::uint64_t bytes_pending = 0;    // read from the ring buffer, not yet taken by the port
  std::uint64_t bytes_discarded = 0;  // could not be delivered and were dropped
  // kernel: per_cpu/cpuN/stats
  std::uint64_t entries = 0;  // still in the ring buffer
  std::uint64_t read_events = 0;
  std::uint64_t overrun = 0;
  std::uint64_t commit_overrun = 0;
  std::uint64_t dropped_events = 0;
  bool end_fence_sent = false;
  std::string error;       // what ended this CPU's recorder early; empty: nothing
  std::string stats_text;  // per_cpu/cpuN/stats as the kernel wrote it (in Stopped; else empty)

  // Events that the kernel saw happen on this CPU, delivered or not.
  [[nodiscard]] std::uint64_t recorded() const { return entries + read_events + overrun; }
  // Events that are lost for certain, in the ring buffer.
  [[nodiscard]] std::uint64_t lost() const { return overrun + commit_overrun + dropped_events; }
};

struct Stop {
  static constexpr MessageType kType = MessageType::stop;
  std::uint64_t run_id = 0;  // 0: whatever run is on
};

struct Stopped {
  static constexpr MessageType kType = MessageType::stopped;
  std::uint64_t run_id = 0;
  bool complete = false;  // every byte and end fence is with the ports; else ask status later
  std::vector<CpuCounts> cpus;
  std::vector<std::string> notes;
};

struct StatusQuery {
  static constexpr MessageType kType = MessageType::status;
};

struct StatusReport {
  static constexpr MessageType kType = MessageType::status_report;
  AgentState state = AgentState::idle;
  std::uint64_t run_id = 0;  // of the run that is on, draining, or was the last
  std::uint64_t running_ns = 0;
  std::string buffer;  // "top level" or the instance's name
  std::vector<CpuCounts> cpus;
  std::vector<std::string> notes;
};

// Bits of GetMetadata::parts and of what common/metadata.h carries.
inline constexpr std::uint32_t kMetadataFormats = 1U << 0U;  // header_page, header_event, formats
inline constexpr std::uint32_t kMetadataKallsyms = 1U << 1U;
inline constexpr std::uint32_t kMetadataTasks = 1U << 2U;   // saved_cmdlines
inline constexpr std::uint32_t kMetadataPrintk = 1U << 3U;  // printk_formats
inline constexpr std::uint32_t kMetadataSystem = 1U << 4U;  // uname, clock, CPU lists

struct GetMetadata {
  static constexpr MessageType kType = MessageType::get_metadata;
  std::uint32_t parts = 0;
};

// A piece of one zstd frame, whose content is an encoded Metadata (common/metadata.h). The last one
// ends at `total_bytes`.
struct MetadataChunk {
  static constexpr MessageType kType = MessageType::metadata_chunk;
  std::uint64_t total_bytes = 0;  // compressed
  std::uint64_t offset = 0;
  std::uint64_t content_bytes = 0;  // uncompressed, of the whole
  std::string data;
};

struct Ping {
  static constexpr MessageType kType = MessageType::ping;
};
struct Pong {
  static constexpr MessageType kType = MessageType::pong;
};

enum class AgentErrorCode : std::uint32_t {
  failed = 1,
  bad_request = 2,  // the payload does not decode
  bad_setting =
      3,  // unknown event, filter, clock, tracer: `text` is the kernel's own where it has one
  no_tracefs = 4,
  not_configured = 5,
  wrong_run = 6,
  busy = 7,
};

struct AgentError {
  static constexpr MessageType kType = MessageType::error;
  AgentErrorCode code = AgentErrorCode::failed;
  std::string text;
};

struct Unsupported {
  static constexpr MessageType kType = MessageType::unsupported;
  std::uint16_t type = 0;  // the type that is not known
  std::uint32_t protocol_version = kProtocolVersion;
};

void put(ByteWriter& out, const HostHello& message);
void put(ByteWriter& out, const AgentHello& message);
void put(ByteWriter& out, const Configure& message);
void put(ByteWriter& out, const Configured& message);
void put(ByteWriter& out, const Start& message);
void put(ByteWriter& out, const Started& message);
void put(ByteWriter& out, const Stop& message);
void put(ByteWriter& out, const Stopped& message);
void put(ByteWriter& out, const StatusQuery& message);
void put(ByteWriter& out, const StatusReport& message);
void put(ByteWriter& out, const GetMetadata& message);
void put(ByteWriter& out, const MetadataChunk& message);
void put(ByteWriter& out, const Ping& message);
void put(ByteWriter& out, const Pong& message);
void put(ByteWriter& out, const AgentError& message);
void put(ByteWriter& out, const Unsupported& message);

void get(ByteReader& in, HostHello& message);
void get(ByteReader& in, AgentHello& message);
void get(ByteReader& in, Configure& message);
void get(ByteReader& in, Configured& message);
void get(ByteReader& in, Start& message);
void get(ByteReader& in, Started& message);
void get(ByteReader& in, Stop& message);
void get(ByteReader& in, Stopped& message);
void get(ByteReader& in, StatusQuery& message);
void get(ByteReader& in, StatusReport& message);
void get(ByteReader& in, GetMetadata& message);
void get(ByteReader& in, MetadataChunk& message);
void get(ByteReader& in, Ping& message);
void get(ByteReader& in, Pong& message);
void get(ByteReader& in, AgentError& message);
void get(ByteReader& in, Unsupported& message);

// The frame that carries `message`, ready to be sent.
template <typename Message>
[[nodiscard]] Bytes encode_message(std::uint32_t request_id, const Message& message) {
  ByteWriter out;
  put(out, message);
  return encode_frame(
      {kProtocolVersion, static_cast<std::uint16_t>(Message::kType), request_id, out.take()});
}

// The message in a frame whose type is already known to be Message's.
template <typename Message>
[[nodiscard]] Result<Message> decode_message(const Frame& frame) {
  Message message;
  ByteReader in(frame.payload);
  get(in, message);
  if (!in.ok()) return fail("a control message is cut short");
  return message;
}

}  // namespace vtrace
