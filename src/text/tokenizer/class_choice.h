// Chooses the class of transformers 5.23 that AutoTokenizer uses for a directory.
#pragma once
#include <string>

#include "base/log.h"
#include "text/tokenizer/settings.h"

namespace trl::text {

// Decides by tokenizer_config.json, config.json (in directory, may be missing) and the ByteLevel steps of
// tokenizer.json. The result may end in "Fast"; empty: a generic class, which uses tokenizer.json unchanged.
// log, which may be nullptr, gets a warning if the file overrules the named class. Throws Error(unsupported)
// for a class that transformers rebuilds and this build cannot.
std::string choose_class(const Files& files, const std::string& directory, base::LogSink* log);

}  // namespace trl::text
