// The small pure parts of record: event options, the ledger, progress lines, units, directories.
#include <gtest/gtest.h>

#include "common/units.h"
#include "host-cli/event_options.h"
#include "host-cli/guest_directory.h"
#include "host-cli/ledger.h"
#include "host-cli/progress_text.h"

namespace vtrace {
namespace {

TEST(EventOptions, TakesASystemOrASystemAndAnEvent) {
  EXPECT_EQ(parse_event("sched")->system, "sched");
  EXPECT_EQ(parse_event("sched")->event, "");
  EXPECT_EQ(parse_event("sched:sched_switch")->event, "sched_switch");
  EXPECT_EQ(parse_event("irq/softirq_entry")->system, "irq");
}

TEST(EventOptions, RefusesWhatCannotBeAnEventsName) {
  for (const char* const text : {"", ":", "sched:", ":x", "..", "a:..", "a/b/c", "a:b:c", "a b"}) {
    const auto event = parse_event(text);
    ASSERT_FALSE(event) << text;
    EXPECT_EQ(event.error().kind, ErrorKind::usage);
  }
}

TEST(Units, ReadsSizesInPowersOf1024) {
  EXPECT_EQ(*parse_size("4096"), 4096U);
  EXPECT_EQ(*parse_size("64K"), 65536U);
  EXPECT_EQ(*parse_size("4M"), 4U << 20U);
  EXPECT_EQ(*parse_size("2g"), 2ULL << 30U);
  for (const char* const text :
       {"", "K", "-1", "4X", "4MB", "1.5M", "99999999999999999999", "17179869184G"})
    EXPECT_FALSE(parse_size(text)) << text;
}

TEST(Units, ReadsDurations) {
  using std::chrono::milliseconds;
  EXPECT_EQ(*parse_duration("5"), milliseconds(5000));
  EXPECT_EQ(*parse_duration("0.5s"), milliseconds(500));
  EXPECT_EQ(*parse_duration("250ms"), milliseconds(250));
  EXPECT_EQ(*parse_duration("2m"), milliseconds(120000));
  EXPECT_EQ(*parse_duration("1h"), milliseconds(3600000));
  for (const char* const text : {"", "s", "-1", "1d", "1e3", "nan", "inf", "99999h"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(Units, WritesSizesForPeople) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1536), "1.5 KiB");
  EXPECT_EQ(format_size(5ULL << 30U), "5.0 GiB");
}

TEST(GuestDirectory, PrefersTheDirectoryThenTheGuestThenTheBase) {
  EXPECT_EQ(*fifo_directory({.base = "", .guest = "", .directory = ""}), "/tmp/virtio-trace");
  EXPECT_EQ(*fifo_directory({.base = "/run/vt", .guest = "", .directory = ""}), "/run/vt");
  EXPECT_EQ(*fifo_directory({.base = "/run/vt", .guest = "web 1", .directory = ""}),
            "/run/vt/web 1");
  EXPECT_EQ(*fifo_directory({.base = "/run/vt", .guest = "web", .directory = "/x"}), "/x");
}

TEST(GuestDirectory, RefusesAGuestsNameThatIsNoDirectorysName) {
  for (const std::string& name : {std::string("."), std::string(".."), std::string("a/b"),
                                  std::string("/etc"), std::string(256, 'x')}) {
    const auto directory = fifo_directory({.base = "", .guest = name, .directory = ""});
    ASSERT_FALSE(directory) << name;
    EXPECT_EQ(directory.error().kind, ErrorKind::usage);
  }
}

// A CPU on which everything arrived: 10 sub-buffers, 100 events.
CpuProgress good_host() {
  CpuProgress host;
  host.cpu = 1;
  host.begun = true;
  host.ended = true;
  host.received_bytes = 40960;
  host.written_bytes = 40960;
  host.end_fence =
      Fence{.kind = FenceKind::end, .run_id = 1, .cpu = 1, .bytes = 40960, .subbufs = 10};
  return host;
}
CpuCounts good_agent() {
  CpuCounts agent;
  agent.cpu = 1;
  agent.bytes_sent = 40960;
  agent.subbufs_sent = 10;
  agent.read_events = 100;
  return agent;
}
std::string problem_of(const CpuProgress& host, const CpuCounts& agent) {
  const std::vector<CpuCounts> list = {agent};
  return make_ledger({host}, &list).front().problem;
}

TEST(Ledger, FindsNothingWhereEverythingAddsUp) {
  EXPECT_EQ(problem_of(good_host(), good_agent()), "");
}

TEST(Ledger, NamesBytesThatWereSentAndNotReceived) {
  CpuProgress host = good_host();
  host.received_bytes -= 4096;
  EXPECT_EQ(problem_of(host, good_agent()), "40960 bytes sent, 36864 received");
}

TEST(Ledger, NamesBytesThatWereReceivedAndNotWritten) {
  CpuProgress host = good_host();
  host.written_bytes = 0;
  EXPECT_EQ(problem_of(host, good_agent()), "40960 bytes received, 0 written");
}

TEST(Ledger, NamesAnEndThatDidNotCome) {
  CpuProgress host = good_host();
  host.ended = false;
  host.end_fence.reset();
  EXPECT_EQ(problem_of(host, good_agent()),
            "the end of the data did not come (40.0 KiB received, 40.0 KiB sent)");
}

TEST(Ledger, NamesEventsThatTheAgentLeftOrDropped) {
  CpuCounts agent = good_agent();
  agent.entries = 7;
  EXPECT_EQ(problem_of(good_host(), agent), "7 events were left in the guest's ring buffer");
  agent = good_agent();
  agent.bytes_discarded = 4096;
  EXPECT_EQ(problem_of(good_host(), agent),
            "the agent dropped 4096 bytes that it could not deliver");
}

TEST(Ledger, CountsTheKernelsLossesAsLostAndAsNoProblem) {
  CpuCounts agent = good_agent();
  agent.overrun = 5;
  agent.dropped_events = 2;
  const std::vector<CpuCounts> list = {agent};
  const auto ledger = make_ledger({good_host()}, &list);
  EXPECT_EQ(ledger.front().lost_events(), 7U);
  EXPECT_EQ(ledger.front().problem, "");
}

TEST(Ledger, GoesByTheHostsCountsWhenTheAgentIsGone) {
  CpuProgress host = good_host();
  host.lost_events = 9;
  const auto ledger = make_ledger({host}, nullptr);
  EXPECT_FALSE(ledger.front().agent);
  EXPECT_EQ(ledger.front().lost_events(), 9U);
}

TEST(ProgressText, TellsRateBytesAndLosses) {
  ProgressText text;
  CpuProgress cpu;
  cpu.received_bytes = 4U << 20U;
  EXPECT_EQ(text.line(2, {cpu}, 0), "2 s  2.0 MiB/s  4.0 MiB  0 events lost");
  cpu.received_bytes = 5U << 20U;
  cpu.lost_events = 3;
  EXPECT_EQ(text.line(3, {cpu}, 0), "3 s  1.0 MiB/s  5.0 MiB  3 events lost");
}

TEST(ProgressText, ShowsAsManyCpusFillAsFit) {
  std::vector<CpuProgress> cpus(100);
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    cpus[i].cpu = static_cast<int>(i);
    cpus[i].queue_size = 65536;
  }
  cpus[1].queued_bytes = 65536;
  EXPECT_EQ(fill_bars(cpus, 7), "0:▁ 1:█");
  EXPECT_EQ(fill_bars(cpus, 6), "0:▁");
}

}  // namespace
}  // namespace vtrace
