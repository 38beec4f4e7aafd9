import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import libtrl.Completion;
import libtrl.Config;
import libtrl.Generator;
import libtrl.Model;
import libtrl.Tokenizer;
import libtrl.TrlException;

/**
 * Answers several users at once and prints tokens as they come, cancels one answer in the middle, and goes on with another
 * conversation: Main MODEL [KEY=VALUE ...]. MODEL is a Hugging Face directory or a GGUF file with a chat template; KEY is
 * one of the group `generate`, such as generate.temperature.
 */
public final class Main {
  private static final List<String> PROMPTS = List.of("What does the kernel do?", "Who wrote it?", "Name a row.");
  private static final String NEXT = "And since when?";
  private static final String MARK = "THE-ANSWER-4f1c"; // stands for an answer in the template

  /** Tokens of different completions alternate; the completion's number tells which one it is. */
  private static int onToken(Generator.Token token) {
    System.out.println("[" + token.completion() + "] " + token.id() + " \"" + token.text() + "\"");
    return 0; // anything else ends this completion
  }

  private static Completion printCompletion(Generator generator, String prompt, long number) {
    Completion answer = generator.take(number, 1).get(0);
    System.out.println(prompt + " -> " + answer.text() + " (" + answer.finishReason() + ")");
    return answer;
  }

  private static Map<String, String> message(String role, String content) {
    return Map.of("role", role, "content", content);
  }

  /**
   * The tokens that follow an answer when the user says something else. The answer's own stay as they were generated; the
   * template writes the rest, whose first token is the end of the answer, which is there already unless the answer ended for
   * another reason.
   */
  private static int[] nextMessage(Tokenizer tokenizer, int[] answer) {
    String text = tokenizer.applyChatTemplate(Map.of("add_generation_prompt", true, "messages",
        List.of(message("user", PROMPTS.get(0)), message("assistant", MARK), message("user", NEXT))));
    int mark = text.indexOf(MARK);
    if (mark < 0) throw new IllegalStateException("the chat template does not write answers as they are");
    int[] ids = tokenizer.encode(text.substring(mark + MARK.length()), false, false);
    boolean ended = ids.length > 0 && answer.length > 0 && ids[0] == answer[answer.length - 1];
    return Arrays.copyOfRange(ids, ended ? 1 : 0, ids.length);
  }

  private static void run(String path, Config config) {
    try (Tokenizer tokenizer = new Tokenizer(Path.of(path));
        Model model = new Model(null, path, config);
        Generator generator = model.generator(tokenizer)) {
      List<Long> numbers = PROMPTS.stream().map(prompt -> generator.add(prompt, config)).toList();
      for (int steps = 1; generator.step(Main::onToken); steps++) {
        if (steps == 3) generator.cancel(numbers.get(1), 1);
      }
      Completion answer = printCompletion(generator, PROMPTS.get(0), numbers.get(0));
      for (int i = 1; i < PROMPTS.size(); i++) printCompletion(generator, PROMPTS.get(i), numbers.get(i));
      // generate.keep has kept its keys and values: only the new message is computed now.
      generator.extend(numbers.get(0), nextMessage(tokenizer, answer.tokenIds()), config);
      while (generator.step(Main::onToken)) continue;
      printCompletion(generator, NEXT, numbers.get(0));
      generator.releaseMemory();
    }
  }

  public static void main(String[] arguments) {
    if (arguments.length < 1) {
      System.err.println("usage: Main MODEL [KEY=VALUE ...]");
      System.exit(1);
    }
    try (Config config = Config.of("generate.max_new_tokens", 8, "generate.chat", true, "generate.keep", true)) {
      for (String argument : List.of(arguments).subList(1, arguments.length)) {
        String[] pair = argument.split("=", 2);
        if (pair.length < 2) throw new IllegalArgumentException("KEY=VALUE is needed, not " + argument);
        config.put(pair[0], pair[1]);
      }
      run(arguments[0], config);
    } catch (TrlException error) {
      System.err.println("error " + error.status() + ": " + error.getMessage());
      System.exit(1);
    } catch (IllegalArgumentException | IllegalStateException error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }
}
