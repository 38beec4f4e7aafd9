// Which class of transformers 5.23 AutoTokenizer takes for a directory.
#pragma once
#include <string>

#include "base/log.h"
#include "text/tokenizer/settings.h"

namespace trl::text {

// By tokenizer_config.json, config.json (in directory, may be missing) and whether tokenizer.json has
// ByteLevel steps; with or without "Fast"; empty: a generic one, which takes tokenizer.json as it stands.
// log, which may be nullptr, gets a warning if the file overrules the named class. Throws Error(unsupported)
// for a class that transformers rebuilds and this build cannot.
std::string choose_class(const Files& files, const std::string& directory, base::LogSink* log);

}  // namespace trl::text
