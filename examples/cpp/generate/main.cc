// Answers several users at once and prints tokens as they come, cancels one answer in the middle, and goes on
// with another conversation: generate MODEL [KEY=VALUE ...]. MODEL is a Hugging Face directory or a GGUF file
// with a chat template; keys are those of the group `generate`, such as generate.temperature. The language is
// C++11.
#include <iostream>
#include <string>
#include <trl/trl.hpp>
#include <vector>

namespace {

const std::string kQuestion = "What does the kernel do?";
const std::string kNext = "And since when?";
const std::string kMark = "THE-ANSWER-4f1c";  // stands for an answer in the template

// Tokens of different completions alternate; `number` tells which one it is. A result other than 0 would end
// this completion.
void on_token(std::size_t number, std::int32_t token, trl::TextView text, double) {
  std::cout << "[" << number << "] " << token << " \"" << text << "\"" << std::endl;
}

trl::Completion print_completion(trl::Generator& generator, const std::string& prompt, std::size_t number) {
  const trl::Completion answer = generator.take(number)[0];
  std::cout << prompt << " -> " << answer.text << " (" << answer.finish_reason << ")\n";
  return answer;
}

// The tokens that follow an answer when the user says something else. The answer's own stay as they were
// generated; the template writes the rest, whose first token is the end of the answer, which is there already
// unless the answer ended for another reason.
std::vector<std::int32_t> next_message(const trl::Tokenizer& tokenizer, const trl::Completion& answer) {
  const std::string text = tokenizer.apply_chat_template(
      R"({"messages": [{"role": "user", "content": ")" + kQuestion +
      R"("}, {"role": "assistant", "content": ")" + kMark + R"("}, {"role": "user", "content": ")" + kNext +
      R"("}], "add_generation_prompt": true})");
  const std::size_t mark = text.find(kMark);
  if (mark == std::string::npos)
    throw std::runtime_error("the chat template does not write answers as they are");
  std::vector<std::int32_t> ids = tokenizer.encode(text.substr(mark + kMark.size()), false, 0);
  if (!ids.empty() && !answer.token_ids.empty() && ids.front() == answer.token_ids.back())
    ids.erase(ids.begin());
  return ids;
}

void run(const std::string& path, const trl::Config& config) {
  const trl::Tokenizer tokenizer(path);
  trl::Model model(path, config);
  trl::Generator generator = model.generator(&tokenizer);
  const std::vector<std::string> prompts = {kQuestion, "Who wrote it?", "Name a row."};
  std::vector<std::size_t> numbers;
  for (const std::string& prompt : prompts) numbers.push_back(generator.add(prompt, config));
  for (int steps = 1; generator.step(on_token); ++steps)
    if (steps == 3) generator.cancel(numbers[1]);
  const trl::Completion answer = print_completion(generator, prompts[0], numbers[0]);
  for (std::size_t i = 1; i < prompts.size(); ++i) print_completion(generator, prompts[i], numbers[i]);
  // generate.keep has kept its keys and values: only the new message is computed now.
  generator.extend(numbers[0], next_message(tokenizer, answer), config);
  while (generator.step(on_token)) continue;
  print_completion(generator, kNext, numbers[0]);
  generator.release_memory();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: " << argv[0] << " MODEL [KEY=VALUE ...]\n";
    return 2;
  }
  try {
    trl::Config config{{"generate.max_new_tokens", 8}, {"generate.chat", true}, {"generate.keep", true}};
    for (int i = 2; i < argc; ++i) {
      const std::string pair = argv[i];
      const std::size_t equals = pair.find('=');
      if (equals == std::string::npos) throw std::invalid_argument("KEY=VALUE is needed, not " + pair);
      config.set(pair.substr(0, equals), pair.substr(equals + 1));
    }
    run(argv[1], config);
    return 0;
  } catch (const trl::Error& error) {
    std::cerr << "error " << error.status() << ": " << error.what() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}
