// The one place that instantiates the JSON parser.
#include "host.h"

namespace host {

Json parse(std::string_view text) { return Json::parse(text); }

}  // namespace host
