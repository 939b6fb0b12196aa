// The agent's small parts: options, log, ports, the control channel, metadata.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "common/messages.h"
#include "common/metadata.h"
#include "guest-agent/agent_log.h"
#include "guest-agent/agent_options.h"
#include "guest-agent/control_channel.h"
#include "guest-agent/metadata_collector.h"
#include "guest-agent/port_set.h"
#include "guest-agent/sink_turn.h"
#include "tests/support/fake_tree.h"
#include "tests/support/must.h"

namespace vtrace::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Result<CommandLine> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "virtio-trace-agent");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

TEST(AgentOptions, HasTheKernelAgentsOptions) {
  const auto line = must(parse({"-o", "-s", "128K"}));
  EXPECT_TRUE(line.options.to_stdout);
  EXPECT_EQ(line.options.pipe_bytes, 128U << 10U);
  EXPECT_THAT(must(parse({"-h"})).text, AllOf(HasSubstr("-o"), HasSubstr("-s"), HasSubstr("-h")));
  EXPECT_THAT(must(parse({"--version"})).text, HasSubstr(VTRACE_VERSION));
}

TEST(AgentOptions, TakesPipeSizesFrom64KTo1M) {
  for (const auto& [text, size] : std::initializer_list<std::pair<const char*, std::size_t>>{
           {"64K", 65536}, {"65536", 65536}, {"1M", 1048576}, {"1m", 1048576}, {"100k", 102400}})
    EXPECT_EQ(must(parse_pipe_size(text)), size) << text;
  for (const char* text :
       {"", "K", "63K", "2M", "-64K", "64KB", "64 K", "1G", "99999999999999999999"})
    EXPECT_FALSE(parse_pipe_size(text)) << text;
}

TEST(AgentOptions, RefusesWhatMakesNoSenseAsUsage) {
  for (const std::vector<const char*>& arguments : {std::vector<const char*>{"--what"},
                                                    {"-s", "1K"},
                                                    {"--instance", "a/b"},
                                                    {"--instance", ".."},
                                                    {"--flush-interval", "0"},
                                                    {"--flush-interval", "2d"},
                                                    {"extra"}}) {
    const auto line = parse(arguments);
    ASSERT_FALSE(line) << arguments.front();
    EXPECT_EQ(line.error().kind, ErrorKind::usage);
  }
  EXPECT_EQ(must(parse_flush_interval("0.5")), 500ms);
  EXPECT_EQ(must(parse_flush_interval("200ms")), 200ms);
  EXPECT_EQ(must(parse_flush_interval("2m")), 120s);
}

TEST(AgentLog, LeavesOutAFloodAndSaysHowMuch) {
  Pipe pipe = must(make_pipe(1U << 20U));
  auto now = std::chrono::steady_clock::time_point{};
  AgentLog log(pipe.write.get(), false, [&now] { return now; });
  for (int i = 0; i < 1000; ++i) log.info(fmt::format("line {}", i));
  now += 5s;
  log.info("later\nand more");
  pipe.write.reset();
  const std::string text = must(read_to_end(pipe.read.get(), "pipe"));
  EXPECT_EQ(std::ranges::count(text, '\n'), AgentLog::kBurst + 2);
  EXPECT_THAT(text, HasSubstr(fmt::format("{} log lines were left out", 1000 - AgentLog::kBurst)));
  EXPECT_THAT(text, HasSubstr("later and more\n"));
}

std::vector<std::string> names_of(const std::vector<FoundPort>& ports) {
  std::vector<std::string> names;
  for (const FoundPort& port : ports) names.push_back(port.name + (port.fifos ? " fifos" : ""));
  return names;
}

TEST(FindPorts, FindsThemByNameInSysfs) {
  const FakeTree tree{{"class/virtio-ports/vport1p1/name", "agent-ctl-path\n"},
                      {"class/virtio-ports/vport1p3/name", "trace-path-cpu4\n"},
                      {"class/virtio-ports/vport1p2/name", "trace-path-cpu10\n"},
                      {"class/virtio-ports/vport0p1/name", "org.qemu.guest_agent.0\n"},
                      {"class/virtio-ports/vport0p2/other", "x"}};
  const auto ports = find_ports({.sysfs = tree.root(), .dev = "/dev"});
  EXPECT_THAT(names_of(ports),
              ElementsAre("agent-ctl-path", "trace-path-cpu10", "trace-path-cpu4"));
  EXPECT_EQ(ports[2].path, "/dev/vport1p3");
}

TEST(FindPorts, ASystemWithoutVirtioPortsHasNone) {
  const FakeTree tree{{"class/", ""}};
  EXPECT_TRUE(find_ports({.sysfs = tree.root()}).empty());
}

TEST(FindPorts, FindsNodesAndFifoPairsInADirectory) {
  const FakeTree tree{{"agent-ctl-path.in", ""},
                      {"agent-ctl-path.out", ""},
                      {"trace-path-cpu1", ""},
                      {"trace-path-cpu01.in", ""},
                      {"other.in", ""}};
  EXPECT_THAT(names_of(find_ports({.directory = tree.root()})),
              ElementsAre("agent-ctl-path fifos", "trace-path-cpu1"));
}

TEST(OpenPort, TakesNoRegularFileForAPortAndMakesNone) {
  const FakeTree tree{{"agent-ctl-path.in", ""}, {"trace-path-cpu1", ""}};
  const auto control = open_control_port({"agent-ctl-path", tree.path("agent-ctl-path"), true});
  ASSERT_FALSE(control);
  EXPECT_THAT(control.error().message, HasSubstr("not a FIFO"));
  EXPECT_NE(::access(tree.path("agent-ctl-path.out").c_str(), F_OK), 0);
  EXPECT_FALSE(open_data_port({"trace-path-cpu1", tree.path("trace-path-cpu1"), false}));
  EXPECT_FALSE(open_data_port({"trace-path-cpu2", tree.path("trace-path-cpu2"), true}));
}

TEST(DataPorts, KeepsOpenPortsAndTakesUpNewOnes) {
  const FakeTree tree{};
  const auto make = [&](int cpu) {
    for (const char* end : {"in", "out"}) {
      const std::string path = tree.path(fmt::format("trace-path-cpu{}.{}", cpu, end));
      ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    }
  };
  make(0);
  DataPorts ports({.directory = tree.root()});
  EXPECT_THAT(ports.refresh(), ElementsAre());
  const int first = ports.find(0)->fd.get();
  ports.find(0)->torn = Bytes(3);
  make(7);
  tree.add("trace-path-cpu9.in", "");
  EXPECT_THAT(ports.refresh(), ElementsAre(HasSubstr("trace-path-cpu9")));
  EXPECT_THAT(ports.cpus(), ElementsAre(0, 7));
  EXPECT_EQ(ports.find(0)->fd.get(), first);
  EXPECT_EQ(ports.find(0)->torn.size(), 3U);
  ports.forget(0);
  EXPECT_EQ(ports.find(0), nullptr);
  (void)ports.refresh();
  EXPECT_TRUE(ports.find(0)->torn.empty());
}

TEST(SinkTurn, WakesWhoWaitsWhenATurnEnds) {
  SinkTurn turn;
  const WakeFd one = must(WakeFd::create());
  const WakeFd two = must(WakeFd::create());
  int first = 0;
  int second = 0;
  EXPECT_TRUE(turn.enter(&first, one));
  EXPECT_TRUE(turn.enter(&first, one));
  EXPECT_FALSE(turn.enter(&second, two));
  turn.leave(&second, two);  // not its turn: nothing
  EXPECT_FALSE(turn.enter(&second, two));
  turn.leave(&first, one);
  std::uint64_t signals = 0;
  EXPECT_EQ(::read(two.get(), &signals, sizeof signals), static_cast<ssize_t>(sizeof signals));
  EXPECT_TRUE(turn.enter(&second, two));
}

// A control channel whose other ends the test holds.
struct ChannelRig {
  ChannelRig() {
    Pipe orders = must(make_pipe(0, O_NONBLOCK));
    Pipe answers = must(make_pipe(0, O_NONBLOCK));
    host_write = std::move(orders.write);
    host_read = std::move(answers.read);
    channel.emplace(OpenPort{std::move(orders.read), std::move(answers.write)});
  }
  Fd host_write;
  Fd host_read;
  std::optional<ControlChannel> channel;
};

TEST(ControlChannel, FindsSeveralOrdersInOneRead) {
  ChannelRig rig;
  const auto now = ControlChannel::Clock::now();
  must(write_all(rig.host_write.get(), "1\n0\n", "pipe"));
  must(write_all(rig.host_write.get(), encode_message(5, Ping{}), "pipe"));
  const auto items = must(rig.channel->read(now));
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(std::get<LegacyOrder>(items[0]), LegacyOrder::start);
  EXPECT_EQ(std::get<LegacyOrder>(items[1]), LegacyOrder::stop);
  EXPECT_EQ(std::get<Frame>(items[2]).request_id, 5U);
  EXPECT_FALSE(rig.channel->partial_deadline());
}

TEST(ControlChannel, GivesUpAPartialFrameAfterASecond) {
  ChannelRig rig;
  const auto now = ControlChannel::Clock::now();
  const Bytes frame = encode_message(5, Stop{7});
  must(write_all(rig.host_write.get(), std::span(frame).first(30), "pipe"));
  EXPECT_TRUE(must(rig.channel->read(now)).empty());
  ASSERT_EQ(rig.channel->partial_deadline(), now + ControlChannel::kPartialLimit);
  EXPECT_TRUE(rig.channel->give_up_partial(now + 1s).empty());
  EXPECT_FALSE(rig.channel->partial_deadline());
  EXPECT_EQ(rig.channel->skipped_bytes(), 30U);
  must(write_all(rig.host_write.get(), frame, "pipe"));
  EXPECT_EQ(must(rig.channel->read(now)).size(), 1U);
}

TEST(ControlChannel, AHostThatHangsUpIsNoError) {
  ChannelRig rig;
  rig.host_write.reset();
  EXPECT_TRUE(must(rig.channel->read(ControlChannel::Clock::now())).empty());
}

TEST(ControlChannel, KeepsABoundedQueueAndDropsUnaskedFramesFirst) {
  ChannelRig rig;
  MetadataChunk big;
  big.data.assign(60U << 10U, 'x');
  // One fills the pipe and stays begun; then answers and unasked ones in turn.
  for (std::uint32_t i = 0; i < 200; ++i) {
    rig.channel->send(encode_message(i, big),
                      i % 2 == 0 ? ControlChannel::Kind::answer : ControlChannel::Kind::unasked);
    ASSERT_LE(rig.channel->queued_bytes(), ControlChannel::kMaxQueuedBytes);
  }
  EXPECT_GT(rig.channel->dropped_frames(), 100U);
  ControlDecoder decoder(ControlDecoder::LegacyOrders::ignored);
  std::vector<std::uint32_t> ids;
  Bytes piece(1U << 16U);
  for (int idle = 0; idle < 3;) {
    const ssize_t got = ::read(rig.host_read.get(), piece.data(), piece.size());
    if (got <= 0) {
      ++idle;
      must(rig.channel->flush());
      continue;
    }
    idle = 0;
    decoder.feed(std::span(piece).first(static_cast<std::size_t>(got)));
    while (const auto item = decoder.next()) ids.push_back(std::get<Frame>(*item).request_id);
  }
  EXPECT_EQ(decoder.skipped_bytes(), 0U) << "no frame is torn";
  EXPECT_TRUE(std::ranges::is_sorted(ids));
  EXPECT_EQ(ids.back(), 199U);
  EXPECT_EQ(std::ranges::count_if(ids, [](std::uint32_t id) { return id % 2 == 1 && id > 2; }), 1)
      << "of the unasked ones the newest is left";
}

Metadata unpack(const CollectedMetadata& collected) {
  Bytes content(collected.content_bytes);
  const std::size_t size = ZSTD_decompress(
      content.data(), content.size(), collected.compressed.data(), collected.compressed.size());
  EXPECT_EQ(size, content.size());
  return must(decode_metadata(content));
}

FakeTree metadata_tree() {
  return {{"tracefs/events/header_page", "page"},
          {"tracefs/events/sched/enable", "0"},
          {"tracefs/events/sched/sched_switch/format", "name: sched_switch\n"},
          {"tracefs/events/sched/gone/id", "1"},
          {"tracefs/events/ftrace/print/format", "name: print\n"},
          {"tracefs/saved_cmdlines", "1 init\n"},
          {"tracefs/printk_formats", "0xff : \"x\"\n"},
          {"proc/kallsyms", "0000000000000000 A zero\nffffffff81000000 T _text\n"},
          {"sys/devices/system/cpu/online", "0,2-3\n"}};
}

MetadataWish wish_of(const FakeTree& tree, std::uint32_t parts) {
  return {.parts = parts,
          .tracefs = tree.path("tracefs"),
          .buffer = {"page", "event", "[local]"},
          .places = {.sysfs = tree.path("sys"), .proc = tree.path("proc")}};
}

TEST(MetadataCollector, CollectsTheWishedParts) {
  const FakeTree tree = metadata_tree();
  const auto collected = must(collect_metadata(wish_of(tree, ~0U), {}));
  EXPECT_TRUE(collected.notes.empty());
  const Metadata metadata = unpack(collected);
  ASSERT_EQ(metadata.formats.size(), 2U);
  EXPECT_EQ(metadata.formats[0].system, "ftrace");
  EXPECT_EQ(metadata.formats[1].text, "name: sched_switch\n");
  EXPECT_EQ(metadata.header_page, "page");
  EXPECT_THAT(metadata.kallsyms, HasSubstr("_text"));
  EXPECT_EQ(metadata.saved_cmdlines, "1 init\n");
  EXPECT_EQ(metadata.cpus_online, "0,2-3");
  EXPECT_EQ(metadata.trace_clock, "[local]");
  const Metadata tasks = unpack(must(collect_metadata(wish_of(tree, kMetadataTasks), {})));
  EXPECT_EQ(tasks.saved_cmdlines, "1 init\n");
  EXPECT_TRUE(tasks.formats.empty());
  EXPECT_TRUE(tasks.sysname.empty());
}

TEST(MetadataCollector, LeavesOutHiddenAddressesAndMissingFilesWithANote) {
  const FakeTree tree = metadata_tree();
  tree.add("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 T start\n");
  tree.remove("tracefs/printk_formats");
  const auto collected = must(collect_metadata(wish_of(tree, ~0U), {}));
  EXPECT_THAT(collected.notes,
              ElementsAre(HasSubstr("printk_formats"), HasSubstr("kptr_restrict")));
  EXPECT_TRUE(unpack(collected).kallsyms.empty());
}

TEST(MetadataCollector, CanBeInterruptedAndBegunAgain) {
  const FakeTree tree = metadata_tree();
  std::stop_source stop;
  stop.request_stop();
  const auto result = collect_metadata(wish_of(tree, ~0U), stop.get_token());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::interrupted);
  const WakeFd done = must(WakeFd::create());
  MetadataCollector collector(done);
  collector.begin(wish_of(tree, kMetadataFormats));
  collector.begin(wish_of(tree, kMetadataTasks));
  std::optional<Result<CollectedMetadata>> taken;
  while (!(taken = collector.take())) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(unpack(must(std::move(*taken))).saved_cmdlines, "1 init\n");
  EXPECT_FALSE(collector.take());
}

}  // namespace
}  // namespace vtrace::test
