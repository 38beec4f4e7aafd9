// trl options [trainer]: the option table, one paragraph a key.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/handles.h"
#include "cli/output.h"

namespace trl::cli {

int options(const Words& words) {
  if (words.size() > 1) throw Failure(kUsage, "usage: trl options [trainer]");
  std::string text;
  std::string section;
  for (const trl_option* o = trl_option_next(nullptr); o != nullptr; o = trl_option_next(o)) {
    const std::string trainers = trl_option_trainers(o);
    if (!words.empty() && ("," + trainers + ",").find("," + words[0] + ",") == std::string::npos) continue;
    if (section != trl_option_section(o)) {
      section = trl_option_section(o);
      text += fmt::format("{}{}\n", text.empty() ? "" : "\n", section);
    }
    const bool of_one = !words.empty();
    const std::string accepted =
        of_one ? trl_option_accepted_for(o, words[0].c_str()) : trl_option_accepted(o);
    text += fmt::format("  {} = {}{}\n      {}\n", trl_option_name(o),
                        of_one ? trl_option_default_for(o, words[0].c_str()) : trl_option_default(o),
                        accepted.empty() ? "" : "  (" + accepted + ")",
                        of_one ? trl_option_doc_for(o, words[0].c_str()) : trl_option_doc(o));
    if (*trl_option_aliases(o) != '\0') text += fmt::format("      also: {}\n", trl_option_aliases(o));
    if (*trl_option_unsupported_reason(o) != '\0')
      text += fmt::format("      other values are refused: {}\n", trl_option_unsupported_reason(o));
  }
  if (text.empty()) throw Failure(kUsage, "no trainer '" + words[0] + "'; try: trl options sft");
  print(text);
  return 0;
}

}  // namespace trl::cli
