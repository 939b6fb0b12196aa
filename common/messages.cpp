#include "common/messages.h"

namespace vtrace {
namespace {

// The most strings or records that a list is believed to hold; a bound for memory, not for users.
constexpr std::uint32_t kMaxListItems = 65536;

void put_texts(ByteWriter& out, const std::vector<std::string>& texts) {
  out.u32(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) out.text(text);
}

std::uint32_t get_count(ByteReader& in) {
  const std::uint32_t count = in.u32();
  if (count > kMaxListItems) {
    in.raw(in.left() + 1);  // marks the reader as failed
    return 0;
  }
  return count;
}

void get_texts(ByteReader& in, std::vector<std::string>& texts) {
  const std::uint32_t count = get_count(in);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) texts.push_back(in.text());
}

void put_counts(ByteWriter& out, const std::vector<CpuCounts>& list) {
  out.u32(static_cast<std::uint32_t>(list.size()));
  for (const CpuCounts& cpu : list) {
    // A record tells its own length, so that it may grow at its end.
    ByteWriter record;
    record.u32(cpu.cpu);
    for (const std::uint64_t value :
         {cpu.bytes_sent, cpu.subbufs_sent, cpu.bytes_pending, cpu.bytes_discarded, cpu.entries,
          cpu.read_events, cpu.overrun, cpu.commit_overrun, cpu.dropped_events})
      record.u64(value);
    record.u8(cpu.end_fence_sent ? 1 : 0);
    record.text(cpu.error);
    record.text(cpu.stats_text);
    out.text(as_text(record.bytes()));
  }
}

void get_counts(ByteReader& in, std::vector<CpuCounts>& list) {
  const std::uint32_t count = get_count(in);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    const auto bytes = in.raw(in.u32());
    ByteReader record(bytes);
    CpuCounts cpu;
    cpu.cpu = record.u32();
    for (std::uint64_t* const value :
         {&cpu.bytes_sent, &cpu.subbufs_sent, &cpu.bytes_pending, &cpu.bytes_discarded,
          &cpu.entries, &cpu.read_events, &cpu.overrun, &cpu.commit_overrun, &cpu.dropped_events})
      *value = record.u64();
    cpu.end_fence_sent = record.u8() != 0;
    cpu.error = record.text();
    cpu.stats_text = record.text();
    if (!record.ok()) in.raw(in.left() + 1);
    list.push_back(std::move(cpu));
  }
}

}  // namespace

void put(ByteWriter& out, const HostHello& m) {
  out.u32(m.protocol_version);
  out.text(m.host_version);
}
void get(ByteReader& in, HostHello& m) {
  m.protocol_version = in.u32();
  m.host_version = in.text();
}

void put(ByteWriter& out, const AgentHello& m) {
  out.u32(m.protocol_version);
  out.text(m.agent_version);
  out.text(m.boot_id);
  out.u64(m.agent_id);
  for (const std::string* const text :
       {&m.sysname, &m.nodename, &m.kernel_release, &m.machine, &m.cpus_possible, &m.cpus_present,
        &m.cpus_online, &m.cpus_with_port})
    out.text(*text);
  out.u32(m.page_size);
  out.u32(m.subbuf_size);
  for (const std::string* const text : {&m.clocks, &m.tracers, &m.tracefs, &m.instance})
    out.text(*text);
  out.u32(static_cast<std::uint32_t>(m.state));
  out.u64(m.run_id);
  put_texts(out, m.notes);
}
void get(ByteReader& in, AgentHello& m) {
  m.protocol_version = in.u32();
  m.agent_version = in.text();
  m.boot_id = in.text();
  m.agent_id = in.u64();
  for (std::string* const text :
       {&m.sysname, &m.nodename, &m.kernel_release, &m.machine, &m.cpus_possible, &m.cpus_present,
        &m.cpus_online, &m.cpus_with_port})
    *text = in.text();
  m.page_size = in.u32();
  m.subbuf_size = in.u32();
  for (std::string* const text : {&m.clocks, &m.tracers, &m.tracefs, &m.instance})
    *text = in.text();
  m.state = static_cast<AgentState>(in.u32());
  m.run_id = in.u64();
  get_texts(in, m.notes);
}

void put(ByteWriter& out, const Configure& m) {
  out.u32(static_cast<std::uint32_t>(m.events.size()));
  for (const EventSpec& event : m.events) {
    out.text(event.system);
    out.text(event.event);
    out.text(event.filter);
  }
  out.text(m.tracer);
  out.text(m.clock);
  out.u64(m.buffer_bytes);
}
void get(ByteReader& in, Configure& m) {
  const std::uint32_t count = get_count(in);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    EventSpec event;
    event.system = in.text();
    event.event = in.text();
    event.filter = in.text();
    m.events.push_back(std::move(event));
  }
  m.tracer = in.text();
  m.clock = in.text();
  m.buffer_bytes = in.u64();
}

void put(ByteWriter& out, const Configured& m) {
  out.text(m.instance);
  out.text(m.cpus);
  out.u32(m.subbuf_size);
  out.text(m.header_page);
  out.text(m.clock);
  out.u64(m.buffer_bytes);
  put_texts(out, m.notes);
}
void get(ByteReader& in, Configured& m) {
  m.instance = in.text();
  m.cpus = in.text();
  m.subbuf_size = in.u32();
  m.header_page = in.text();
  m.clock = in.text();
  m.buffer_bytes = in.u64();
  get_texts(in, m.notes);
}

void put(ByteWriter& out, const Start& m) {
  out.u64(m.run_id);
  out.u32(static_cast<std::uint32_t>(m.target));
}
void get(ByteReader& in, Start& m) {
  m.run_id = in.u64();
  m.target = static_cast<StartTarget>(in.u32());
}

void put(ByteWriter& out, const Started& m) {
  out.u64(m.run_id);
  out.text(m.cpus);
  out.u32(m.subbuf_size);
  out.text(m.header_page);
  put_texts(out, m.notes);
}
void get(ByteReader& in, Started& m) {
  m.run_id = in.u64();
  m.cpus = in.text();
  m.subbuf_size = in.u32();
  m.header_page = in.text();
  get_texts(in, m.notes);
}

void put(ByteWriter& out, const Stop& m) {
  out.u64(m.run_id);
}
void get(ByteReader& in, Stop& m) {
  m.run_id = in.u64();
}

void put(ByteWriter& out, const Stopped& m) {
  out.u64(m.run_id);
  out.u8(m.complete ? 1 : 0);
  put_counts(out, m.cpus);
  put_texts(out, m.notes);
}
void get(ByteReader& in, Stopped& m) {
  m.run_id = in.u64();
  m.complete = in.u8() != 0;
  get_counts(in, m.cpus);
  get_texts(in, m.notes);
}

void put(ByteWriter& /*out*/, const StatusQuery& /*m*/) {}
void get(ByteReader& /*in*/, StatusQuery& /*m*/) {}

void put(ByteWriter& out, const StatusReport& m) {
  out.u32(static_cast<std::uint32_t>(m.state));
  out.u64(m.run_id);
  out.u64(m.running_ns);
  out.text(m.buffer);
  put_counts(out, m.cpus);
  put_texts(out, m.notes);
}
void get(ByteReader& in, StatusReport& m) {
  m.state = static_cast<AgentState>(in.u32());
  m.run_id = in.u64();
  m.running_ns = in.u64();
  m.buffer = in.text();
  get_counts(in, m.cpus);
  get_texts(in, m.notes);
}

void put(ByteWriter& out, const GetMetadata& m) {
  out.u32(m.parts);
}
void get(ByteReader& in, GetMetadata& m) {
  m.parts = in.u32();
}

void put(ByteWriter& out, const MetadataChunk& m) {
  out.u64(m.total_bytes);
  out.u64(m.offset);
  out.u64(m.content_bytes);
  out.text(m.data);
}
void get(ByteReader& in, MetadataChunk& m) {
  m.total_bytes = in.u64();
  m.offset = in.u64();
  m.content_bytes = in.u64();
  m.data = in.text();
}

void put(ByteWriter& /*out*/, const Ping& /*m*/) {}
void get(ByteReader& /*in*/, Ping& /*m*/) {}
void put(ByteWriter& /*out*/, const Pong& /*m*/) {}
void get(ByteReader& /*in*/, Pong& /*m*/) {}

void put(ByteWriter& out, const AgentError& m) {
  out.u32(static_cast<std::uint32_t>(m.code));
  out.text(m.text);
}
void get(ByteReader& in, AgentError& m) {
  m.code = static_cast<AgentErrorCode>(in.u32());
  m.text = in.text();
}

void put(ByteWriter& out, const Unsupported& m) {
  out.u16(m.type);
  out.u32(m.protocol_version);
}
void get(ByteReader& in, Unsupported& m) {
  m.type = in.u16();
  m.protocol_version = in.u32();
}

}  // namespace vtrace
