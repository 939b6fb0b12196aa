// xml as a user runs it, and what libvirt says to its output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/random_domain.h"
#include "tests/support/temp_dir.h"

namespace vtrace::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

namespace fs = std::filesystem;

const std::string kProgram = VTRACE_BIN_DIR "/virtio-trace";
const std::string kFixtures = VTRACE_SOURCE_DIR "/tests/data/domains";

std::vector<fs::path> fixtures() {
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(kFixtures)) files.push_back(file.path());
  std::ranges::sort(files);
  return files;
}

ProcessResult xml(const std::vector<std::string>& arguments, const ProcessOptions& options = {}) {
  std::vector<std::string> argv = {kProgram, "xml"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_process(argv, options);
}

void expect_one_line(const ProcessResult& result, int exit_code) {
  EXPECT_EQ(result.exit_code, exit_code) << result.describe();
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.describe();
  EXPECT_EQ(result.out, "") << result.describe();
}

bool validates(const std::string& file) {
  return run_process({"virt-xml-validate", file, "domain"}).exit_code == 0;
}

// The files of these that libvirt's test driver lets define, each one undefined again.
std::set<std::string> accepted(const std::vector<std::pair<std::string, std::string>>& named) {
  std::string script;
  for (const auto& [file, name] : named)
    script.append("define '").append(file).append("'; undefine '").append(name).append("'; ");
  const auto result =
      run_process({"virsh", "-c", "test:///default", script}, {}, Duration{120'000});
  std::set<std::string> files;
  for (const auto& [file, name] : named) {
    if (result.out.find("defined from " + file + "\n") != std::string::npos) files.insert(file);
  }
  return files;
}

TEST(XmlCommand, OutputOfAllFixturesIsDefinedAndValidatedByLibvirt) {
  const TempDir work;
  std::vector<std::pair<std::string, std::string>> originals;
  std::vector<std::pair<std::string, std::string>> ours;
  for (const fs::path& file : fixtures()) {
    const std::string name = file.stem().string();
    const auto result = xml({"--domain", file.string(), "--guest", "some guest"});
    ASSERT_EQ(result.exit_code, 0) << result.describe();
    const std::string with = work.file(name + ".xml");
    write_text(with, result.out);
    originals.emplace_back(file.string(), name);
    ours.emplace_back(with, name);
    if (validates(file.string())) {
      EXPECT_TRUE(validates(with)) << name;
    }
    EXPECT_EQ(xml({"--domain", with, "--remove"}).out, read_text(file)) << name;
  }
  const auto before = accepted(originals);
  const auto after = accepted(ours);
  EXPECT_GE(before.size(), originals.size() / 2);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(after.contains(ours[i].first), before.contains(originals[i].first)) << ours[i].second;
  }
}

TEST(XmlCommand, OutputOfRandomDomainsIsDefinedWhereTheOriginalIs) {
  const TempDir work;
  constexpr std::uint32_t kDomains = 1000;
  std::vector<std::pair<std::string, std::string>> originals;
  std::vector<std::pair<std::string, std::string>> ours;
  for (std::uint32_t seed = 0; seed < kDomains; ++seed) {
    const std::string name = "random-" + std::to_string(seed);
    const std::string original = work.file(name + ".xml");
    write_text(original, random_domain(seed));
    const auto result = xml({"--domain", original});
    ASSERT_EQ(result.exit_code, 0) << result.describe();
    const std::string with = work.file(name + "-with.xml");
    write_text(with, result.out);
    originals.emplace_back(original, name);
    ours.emplace_back(with, name);
  }
  const auto before = accepted(originals);
  const auto after = accepted(ours);
  EXPECT_GE(before.size(), kDomains / 2);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (before.contains(originals[i].first)) {
      EXPECT_TRUE(after.contains(ours[i].first)) << read_text(ours[i].first);
    }
  }
}

TEST(XmlCommand, PrintsElementsThatFitIntoADomain) {
  const auto elements = xml({"--cpus", "30", "--backend", "unix", "--guest", "g"});
  ASSERT_EQ(elements.exit_code, 0) << elements.describe();
  const TempDir work;
  std::string domain = read_text(kFixtures + "/plain.xml");
  domain.insert(domain.find("  </devices>"), elements.out);
  write_text(work.file("domain.xml"), domain);
  EXPECT_TRUE(validates(work.file("domain.xml"))) << domain;
}

TEST(XmlCommand, ReadsStandardInput) {
  const std::string plain = read_text(kFixtures + "/plain.xml");
  const auto with = xml({"--domain", "-"}, {.input = plain});
  EXPECT_EQ(with.out, xml({"--domain", kFixtures + "/plain.xml"}).out);
  EXPECT_EQ(xml({"--domain", "-", "--remove"}, {.input = with.out}).out, plain);
  const auto refused = xml({"--domain", "-"}, {.input = "<domain>"});
  expect_one_line(refused, 1);
  EXPECT_THAT(refused.err, HasSubstr("standard input: line 1, column 1"));
}

TEST(XmlCommand, LeavesTheFileAlone) {
  const TempDir work;
  const std::string file = work.file("domain.xml");
  fs::copy_file(kFixtures + "/crlf.xml", file);
  const auto before = fs::last_write_time(file);
  EXPECT_EQ(xml({"--domain", file}).exit_code, 0);
  EXPECT_EQ(fs::last_write_time(file), before);
  EXPECT_EQ(read_text(file), read_text(kFixtures + "/crlf.xml"));
}

TEST(XmlCommand, NotesWhenTheCountIsNotTheDomains) {
  const auto result = xml({"--domain", kFixtures + "/vcpu-current.xml", "--cpus", "2"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("note: the domain can have 8 vCPUs"));
}

TEST(XmlCommand, RefusesBadWordsInOneLine) {
  const std::string plain = kFixtures + "/plain.xml";
  for (const char* count : {"0", "-1", "100000", "text", ""}) {
    expect_one_line(xml({"--cpus", count}), 2);
    expect_one_line(xml({"--domain", plain, "--cpus", count}), 2);
  }
  expect_one_line(xml({}), 2);
  expect_one_line(xml({"--remove"}), 2);
  expect_one_line(xml({"--cpus", "1", "--backend", "tcp"}), 2);
  expect_one_line(xml({"--domain", plain, "--guest", "a/b"}), 2);
}

TEST(XmlCommand, RefusesBadFilesInOneLineWithTheirPath) {
  const TempDir work;
  expect_one_line(xml({"--domain", work.file("none.xml")}), 1);
  expect_one_line(xml({"--domain", work.path().string()}), 1);
  expect_one_line(xml({"--domain", work.file("two\nlines\x1b[2J.xml")}), 1);
  expect_one_line(xml({"--no-such\noption"}), 2);
  const std::string file = work.file("file.xml");
  for (const std::string text :
       {"", "no xml", "<domain>", "<network/>", "<!DOCTYPE d><domain/>", "<domain></domain>"}) {
    write_text(file, text);
    for (const auto& order : {std::vector<std::string>{"--domain", file},
                              std::vector<std::string>{"--domain", file, "--remove"}}) {
      const auto result = xml(order);
      expect_one_line(result, 1);
      EXPECT_THAT(result.err, AllOf(HasSubstr(file), HasSubstr("line 1, column "))) << text;
    }
  }
}

TEST(XmlCommand, SaysWhenItsOutputCannotBeWritten) {
  const auto result = xml({"--domain", kFixtures + "/plain.xml"}, {.output_file = "/dev/full"});
  expect_one_line(result, 1);
  EXPECT_THAT(result.err, HasSubstr("standard output"));
}

TEST(XmlCommand, TakesTemplatesOfTheAdministrator) {
  const TempDir own;
  write_text(own.file("controller.xml"), "<controller type='virtio-serial'><x/></controller>");
  const auto refused =
      xml({"--cpus", "1"}, {.environment = {"VIRTIO_TRACE_TEMPLATES=" + own.path().string()}});
  expect_one_line(refused, 1);
  EXPECT_THAT(refused.err, HasSubstr(own.file("controller.xml")));
}

TEST(XmlCommand, WritesAnyGuestNameIntoPaths) {
  for (const std::string name : {"with blank", "quote's \"both\"", "$HOME;&<>", "größe-日本語"}) {
    const TempDir work;
    const auto result = xml({"--domain", kFixtures + "/plain.xml", "--guest=" + name});
    ASSERT_EQ(result.exit_code, 0) << result.describe();
    write_text(work.file("domain.xml"), result.out);
    EXPECT_TRUE(validates(work.file("domain.xml"))) << result.out;
    EXPECT_EQ(xml({"--domain", work.file("domain.xml"), "--guest=" + name}).out, result.out);
  }
}

}  // namespace
}  // namespace vtrace::test
