#include "host-cli/xml_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/must.h"

namespace vtrace::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(std::string_view text) {
  const auto spans = scan_xml(text);
  return spans ? "no error" : spans.error().message;
}

TEST(XmlScanner, TellsWhereElementsAre) {
  const std::string text = "<a x='1'> <b/><c>t</c > </a>";
  const ElementSpans spans = must(scan_xml(text));
  ASSERT_EQ(spans.size(), 3U);
  const ElementSpan& outer = spans.at(1);
  EXPECT_EQ(outer.begin, 0U);
  EXPECT_EQ(outer.start_tag_end, 9U);
  EXPECT_EQ(text.substr(outer.content_end), "</a>");
  EXPECT_EQ(outer.end, text.size());
  const ElementSpan& empty = spans.at(text.find("b/>"));
  EXPECT_TRUE(empty.self_closing);
  EXPECT_EQ(text.substr(empty.begin, empty.end - empty.begin), "<b/>");
  const ElementSpan& pair = spans.at(text.find("c>"));
  EXPECT_EQ(text.substr(pair.begin, pair.end - pair.begin), "<c>t</c >");
}

TEST(XmlScanner, IsNotTakenInByTextThatLooksLikeTags) {
  const ElementSpans spans =
      must(scan_xml("<a><!-- <b> </a> --><![CDATA[<c></a>]]><?pi <d> ?>&lt;e&gt;<f g='>/>'/></a>"));
  EXPECT_EQ(spans.size(), 2U);
}

TEST(XmlScanner, TakesAllThatIsWellFormed) {
  for (const char* text :
       {"<a/>", "\xef\xbb\xbf<a/>", " \n<a/>\n\n", "<?xml version='1.0' encoding=\"UTF-8\"?><a/>",
        "<?xml version='1.0' encoding='ISO-8859-1'?><a b='\xe9'/>", "<a>\r\n\t</a>\r\n",
        "<!-- x --><a/><!-- y -->", "<a b='\"' c=\"'\"/>", "<x:a xmlns:x='u'><x:b/></x:a>",
        "<a>&amp;&#65;&#x1F600;</a>", "<größe 日='本'/>", "<a b = 'c'\n/>", "<?php x?><a/>"})
    EXPECT_TRUE(scan_xml(text)) << text << ": " << error_of(text);
}

TEST(XmlScanner, RefusesWhatIsNotWellFormed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no element"},
      {"text", "line 1, column 1: text outside"},
      {"<a>", "line 1, column 1: <a> has no end tag"},
      {"<a></b>", "line 1, column 4: </b> where <a>"},
      {"<a/>\n<b/>", "line 2, column 1: a second root"},
      {"</a>", "has no start tag"},
      {"<a b='1' b='2'/>", "line 1, column 10: <a> has b twice"},
      {"<a b='1'c='2'/>", "unexpected 'c'"},
      {"<a b/>", "b has no value"},
      {"<a b=1/>", "not quoted"},
      {"<a b='1/>", "has no end"},
      {"<a b='<'/>", "'<' in the value"},
      {"<a b='&'/>", "'&' that starts no entity"},
      {"<a>&unknown;</a>", "unknown entity"},
      {"<a>&#0;</a>", "unknown entity"},
      {"<a>&#xd800;</a>", "unknown entity"},
      {"<a>]]></a>", "\"]]>\" in text"},
      {"<a><!-- -- --></a>", "\"--\" in a comment"},
      {"<a><!-- </a>", "comment has no end"},
      {"<a><![CDATA[</a>", "CDATA section has no end"},
      {"<a><?xml version='1.0'?></a>", "very start only"},
      {" <?xml version='1.0'?><a/>", "very start only"},
      {"<a", "has no end"},
      {"<1/>", "a name is missing"},
      {"<a>\x01</a>", "byte 0x01"},
      {"<a>\xff</a>", "not UTF-8"},
      {"<a>\xc0\x80</a>", "not UTF-8"},
      {"<a>\xed\xa0\x80</a>", "not UTF-8"},
      {"<!DOCTYPE a [<!ENTITY x 'y'>]><a/>", "line 1, column 1: a DOCTYPE"},
      {"<a/>trailing", "line 1, column 5: text outside"},
      {"<?xml version='1.0' encoding='UTF-16'?><a/>", "\"utf-16\" cannot be edited"},
  };
  for (const auto& [text, wanted] : cases) EXPECT_THAT(error_of(text), HasSubstr(wanted)) << text;
}

TEST(XmlScanner, RefusesUtf16WithAWord) {
  EXPECT_THAT(error_of(std::string_view("\xff\xfe<\0a\0/\0>\0", 10)), HasSubstr("UTF-16"));
  EXPECT_THAT(error_of(std::string_view("<\0a\0/\0>\0", 8)), HasSubstr("UTF-16"));
}

TEST(XmlScanner, RefusesDeepNesting) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "<a>";
  EXPECT_THAT(error_of(text), HasSubstr("nested too deep"));
}

TEST(XmlScanner, SurvivesEveryCutOfADocument) {
  const std::string text =
      "<?xml version='1.0'?><!-- c --><a b='&lt;' c=\"x\"><![CDATA[x]]><?p q?>\xc3\xa9<d/></a>";
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(scan_xml(std::string_view(text).substr(0, size))) << size;
  EXPECT_TRUE(scan_xml(text));
}

TEST(XmlScanner, CountsLinesAndCharacters) {
  EXPECT_EQ(text_position("ab\ncd", 4), "line 2, column 2");
  EXPECT_EQ(text_position("a\r\n\xc3\xa9x", 5), "line 2, column 2");
  EXPECT_EQ(text_position("\xef\xbb\xbf<a>", 3), "line 1, column 1");
  EXPECT_EQ(text_position("x\n", 99), "line 2, column 1");
}

}  // namespace
}  // namespace vtrace::test
