// Where tracefs is found, what is said when it is not, and what its files tell.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "guest-agent/buffer_stats.h"
#include "guest-agent/trace_instance.h"
#include "guest-agent/tracefs.h"
#include "tests/support/fake_tree.h"
#include "tests/support/must.h"

namespace vtrace::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TracefsPlaces places_of(const FakeTree& tree) {
  return {.roots = {tree.path("new"), tree.path("old")},
          .mounts = tree.path("mounts"),
          .lockdown = tree.path("lockdown")};
}

std::string error_of(const TracefsPlaces& places) {
  const auto found = Tracefs::find(places);
  return found ? "found at " + found->root() : found.error().message;
}

TEST(Tracefs, TakesTheNewPlaceBeforeTheOld) {
  const FakeTree tree{{"new/trace_clock", "[local]"}, {"old/trace_clock", "[local]"}};
  EXPECT_EQ(must(Tracefs::find(places_of(tree))).root(), tree.path("new"));
}

TEST(Tracefs, TakesTheOldPlaceWhenTheNewOneIsNotMounted) {
  const FakeTree tree{{"new/", ""}, {"old/trace_clock", "[local]"}, {"mounts", ""}};
  EXPECT_EQ(must(Tracefs::find(places_of(tree))).root(), tree.path("old"));
}

TEST(Tracefs, NamesBothPlacesWhenItIsNowhere) {
  const FakeTree tree{{"mounts", "proc /proc proc rw 0 0\n"}};
  EXPECT_THAT(error_of(places_of(tree)),
              AllOf(HasSubstr(tree.path("new")), HasSubstr(tree.path("old")),
                    HasSubstr("mount -t tracefs"), Not(HasSubstr("empty"))));
}

TEST(Tracefs, TellsTheLockdownLevelWhenItIsMountedButEmpty) {
  const FakeTree tree{{"new/", ""}, {"lockdown", "none integrity [confidentiality]\n"}};
  tree.add("mounts", fmt::format("nodev {} tracefs rw,relatime 0 0\n", tree.path("new")));
  EXPECT_THAT(error_of(places_of(tree)),
              AllOf(HasSubstr("mounted but empty"), HasSubstr("confidentiality"),
                    HasSubstr(tree.path("new"))));
}

TEST(Tracefs, SaysThatLockdownIsNotTheReasonWhenItIsNone) {
  for (const bool file : {true, false}) {
    const FakeTree tree{{"new/", ""}};
    if (file) tree.add("lockdown", "[none] integrity confidentiality\n");
    tree.add("mounts", fmt::format("nodev {} tracefs rw 0 0\n", tree.path("new")));
    EXPECT_THAT(error_of(places_of(tree)),
                AllOf(HasSubstr("mounted but empty"), HasSubstr("not the reason")));
  }
}

constexpr const char* kHeaderPage =
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    "\tfield: char data;\toffset:16;\tsize:65520;\tsigned:0;\n";

TEST(TraceBuffer, ReadsTheLayoutOfItsOwnHeaderPage) {
  const FakeTree tree{{"events/header_page", kHeaderPage}};
  EXPECT_EQ(must(TraceBuffer(tree.root(), "x").layout()).size(), 65536U);
  const FakeTree without{{"events/", ""}};
  const auto layout = TraceBuffer(without.root(), "x").layout();
  ASSERT_FALSE(layout);
  EXPECT_THAT(layout.error().message, HasSubstr(without.path("events/header_page")));
}

TEST(TraceBuffer, ListsCpusByNumberAndSkipsWhatIsNone) {
  const FakeTree tree{{"per_cpu/cpu0/stats", ""},  {"per_cpu/cpu10/stats", ""},
                      {"per_cpu/cpu2/stats", ""},  {"per_cpu/cpux/stats", ""},
                      {"per_cpu/cpu3b/stats", ""}, {"per_cpu/other/stats", ""}};
  EXPECT_THAT(must(TraceBuffer(tree.root(), "x").cpus()), ElementsAre(0, 2, 10));
}

TEST(TraceBuffer, KnowsTheSizeOfABufferThatWasNotUsedYet) {
  const FakeTree tree{{"per_cpu/cpu0/buffer_size_kb", "7 (expanded: 1408)\n"},
                      {"per_cpu/cpu1/buffer_size_kb", "64\n"}};
  const TraceBuffer buffer(tree.root(), "x");
  EXPECT_EQ(buffer.bytes_per_cpu(0), 1408U * 1024);
  EXPECT_EQ(buffer.bytes_per_cpu(1), 64U * 1024);
  EXPECT_EQ(buffer.bytes_per_cpu(2), 0U);
}

constexpr const char* kStats =
    "entries: 5\noverrun: 7\ncommit overrun: 1\nbytes: 200\noldest event ts:     3.1\n"
    "now ts:  4.2\ndropped events: 2\nread events: 11\n";

TEST(BufferStats, ReadsTheKernelsText) {
  EXPECT_EQ(must(parse_buffer_stats(kStats)), (BufferStats{.entries = 5,
                                                           .overrun = 7,
                                                           .commit_overrun = 1,
                                                           .dropped_events = 2,
                                                           .read_events = 11}));
  EXPECT_FALSE(parse_buffer_stats("No such device\n"));
  EXPECT_FALSE(parse_buffer_stats(""));
}

TEST(BufferStats, WhatLayInTheBufferAtTheStartBelongsToTheRun) {
  const BufferStats before{.entries = 100, .overrun = 5, .read_events = 50};
  // 40 more were recorded, 120 read, 5 overwritten: 100 + 40 - 120 - 5 = 15 are left.
  const BufferStats now{.entries = 15, .overrun = 10, .read_events = 170};
  CpuCounts counts;
  count_kernel_events(before, now, counts);
  EXPECT_EQ(counts.read_events, 120U);
  EXPECT_EQ(counts.overrun, 5U);
  EXPECT_EQ(counts.recorded(), 140U);
}

TEST(BufferStats, ACounterThatWasResetCountsFromTheReset) {
  CpuCounts counts;
  count_kernel_events({.overrun = 9, .read_events = 1000}, {.entries = 1, .read_events = 20},
                      counts);
  EXPECT_EQ(counts.read_events, 20U);
  EXPECT_EQ(counts.overrun, 0U);
}

FakeTree settings_tree() {
  return {{"trace_clock", "[local] global x86-tsc\n"},
          {"available_tracers", "function nop\n"},
          {"events/sched/enable", "0"},
          {"events/sched/sched_switch/enable", "0"},
          {"events/sched/sched_waking/enable", "0"}};
}

std::string checked(const Configure& settings) {
  const FakeTree tree = settings_tree();
  const auto fs = must(Tracefs::find({.roots = {tree.root()}}));
  const auto status = check_settings(fs, settings);
  return status ? "" : status.error().message;
}

Configure with_event(const std::string& system, const std::string& event) {
  Configure settings;
  settings.events = {{system, event, ""}};
  return settings;
}

TEST(CheckSettings, PassesWhatTheKernelKnows) {
  Configure settings = with_event("sched", "sched_switch");
  settings.clock = "x86-tsc";
  settings.tracer = "function";
  EXPECT_EQ(checked(settings), "");
  EXPECT_EQ(checked(with_event("sched", "")), "");
  EXPECT_EQ(checked(with_event("sched", "sched_w*")), "");
}

TEST(CheckSettings, NamesWhatIsNotThere) {
  EXPECT_THAT(checked(with_event("shed", "")), HasSubstr("no event system \"shed\""));
  EXPECT_THAT(checked(with_event("sched", "switch")), HasSubstr("no event \"sched:switch\""));
  EXPECT_THAT(checked(with_event("sched", "x*")), HasSubstr("no event \"sched:x*\""));
  Configure clock;
  clock.clock = "sundial";
  EXPECT_THAT(checked(clock), AllOf(HasSubstr("sundial"), HasSubstr("local global x86-tsc")));
  Configure tracer;
  tracer.tracer = "pen";
  EXPECT_THAT(checked(tracer), AllOf(HasSubstr("pen"), HasSubstr("function nop")));
}

TEST(CheckSettings, RefusesNamesThatLeaveTheirDirectory) {
  for (const char* name : {"..", ".", "../sched", "", "a/b"}) {
    EXPECT_NE(checked(with_event(name, "")), "") << name;
    if (*name != '\0') {
      EXPECT_NE(checked(with_event("sched", name)), "") << name;
    }
  }
}

TEST(CheckSettings, RefusesABufferThatNoKernelTakes) {
  Configure settings;
  settings.buffer_bytes = ~0ULL;
  EXPECT_NE(checked(settings), "");
}

TEST(ErrorLog, BecomesOneLine) {
  EXPECT_EQ(error_log_line("[ 2205.4] event filter parse error: error: Field not found\n"
                           "  Command: nice == 5\n           ^\n"),
            "event filter parse error: error: Field not found Command: nice == 5");
  EXPECT_EQ(error_log_line(""), "");
}

}  // namespace
}  // namespace vtrace::test
