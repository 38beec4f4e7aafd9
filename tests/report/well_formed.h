// That a page or picture is well-formed: what is opened is closed, and nothing is left unescaped.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/text/utf8.h"

namespace trl::report {

// Tags nest and are closed, attributes are quoted, and no & stands alone. HTML's void elements: meta and wbr,
// and no other here.
inline void expect_well_formed(const std::string& text) {
  std::vector<std::string> open;
  size_t tags = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '&') {
      const std::string rest = text.substr(at, 8);
      EXPECT_TRUE(rest.starts_with("&amp;") || rest.starts_with("&lt;") || rest.starts_with("&gt;") ||
                  rest.starts_with("&quot;"))
          << rest;
    }
    if (text[at] != '<') continue;
    const size_t end = text.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = text.substr(at + 1, end - at - 1);
    ASSERT_FALSE(tag.empty());
    EXPECT_EQ(std::count(tag.begin(), tag.end(), '"') % 2, 0) << tag;
    EXPECT_EQ(tag.find('<'), std::string::npos) << tag;
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /\n", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      EXPECT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else if (tag[0] != '!' && tag.back() != '/' && name != "meta" && name != "wbr") {
      open.push_back(name);
    }
    ++tags;
    at = end;
  }
  EXPECT_TRUE(open.empty()) << open.back();
  EXPECT_GT(tags, 20u);
  EXPECT_EQ(base::find_invalid_utf8(text), base::kValid);
}

}  // namespace trl::report
