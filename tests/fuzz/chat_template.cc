// Any bytes as a chat template: a text whose marked parts lie in it, or one error of the format.
#include "text/chat_template/chat_template.h"
#include "base/error.h"
#include "in_memory_file.h"

namespace {

using namespace trl;
using fuzz::require;

const base::Json& messages() {
  static const base::Json all = base::Json::parse(R"([
    {"role": "system", "content": "Be \"brief\"."},
    {"role": "user", "content": [{"type": "text", "text": "a <b> \u00e9"}, {"type": "image"}]},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, null]}}}]},
    {"role": "tool", "content": "3"},
    {"role": "assistant", "content": "It is 3. ", "thinking": "hm"}])");
  return all;
}

void render(const text::ChatTemplate& chat, const text::RenderOptions& options) {
  const text::Rendered rendered = chat.render(messages(), options);
  for (const auto& [begin, end] : rendered.generation) require(begin <= end && end <= rendered.text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const text::ChatTemplate chat(std::string_view(reinterpret_cast<const char*>(data), size));
    text::RenderOptions options;
    options.now = 0;
    options.variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    render(chat, options);
    options.add_generation_prompt = true;
    options.tools =
        base::Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])");
    render(chat, options);
  } catch (const Error& error) {
    require(error.status() == Status::format && !error.message().empty());
  }
  return 0;
}
