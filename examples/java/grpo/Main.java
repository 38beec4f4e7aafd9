import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import libtrl.Config;
import libtrl.Constants.EventKind;
import libtrl.Constants.Status;
import libtrl.Dataset;
import libtrl.Event;
import libtrl.Rollout;
import libtrl.Trainer;
import libtrl.TrlException;

/**
 * Teaches a model sums by GRPO, with a reward in Java: Main MODEL OUTPUT [KEY=VALUE ...]. MODEL is a Hugging Face directory or
 * a GGUF file. A short SFT shows it the sums of two digits with their answers; OUTPUT/sft then answers some. From there GRPO
 * shows it no answer, and rewards completions that are the right number. Every key of `trl options grpo` may follow.
 */
public final class Main {
  /** One of the hundred sums from 0+0= to 9+9=. */
  private static Map<String, String> sum(int a, int b, boolean answered) {
    Map<String, String> row = new HashMap<>(Map.of("prompt", a + "+" + b + "="));
    if (answered) row.put("completion", Integer.toString(a + b));
    return row;
  }

  /** 1 for a completion that is the sum and nothing else. */
  private static double reward(Map<String, Object> row) {
    String[] terms = ((String) row.get("prompt")).split("[+=]");
    int sum = Integer.parseInt(terms[0]) + Integer.parseInt(terms[1]);
    return row.get("completion").equals(Integer.toString(sum)) ? 1 : 0;
  }

  /** Called once for each generation, with all of its completions. */
  private static int checkSums(Rollout rollout) {
    rollout.setRewards(rollout.rows().stream().mapToDouble(Main::reward).toArray());
    return Status.OK;
  }

  private static int onEvent(Event event) {
    Double reward = event.metrics().get("reward");
    if (event.kind() == EventKind.STEP && reward != null) {
      System.out.printf("step %3.0f: mean reward %.3f%n", event.metric("step"), reward);
    }
    return 0;
  }

  private static void train(Config config, Path model, Path output, boolean byRewards) {
    config.putAll(Map.of("model_name_or_path", model, "output_dir", output, "save_strategy", "no", "bf16", false));
    List<Map<String, String>> sums = IntStream.range(0, 100).mapToObj(i -> sum(i / 10, i % 10, !byRewards)).toList();
    try (Dataset rows = Dataset.ofRows(null, sums, config); Trainer trainer = new Trainer(config, rows)) {
      if (byRewards) trainer.addReward("check_sums", Main::checkSums);
      trainer.train(Main::onEvent);
      trainer.save();
    }
  }

  public static void main(String[] arguments) {
    if (arguments.length < 2) {
      System.err.println("usage: Main MODEL OUTPUT [KEY=VALUE ...]");
      System.exit(1);
    }
    Path output = Path.of(arguments[1]), start = output.resolve("sft");
    try (Config sft = Config.of("method", "sft", "learning_rate", 2e-3, "max_steps", 70, "per_device_train_batch_size", 50);
        Config grpo = Config.of("method", "grpo", "learning_rate", 2e-3, "max_steps", 100,
            "per_device_train_batch_size", 400, // 8 for each of 50 prompts
            "num_generations", 8, "max_completion_length", 4)) {
      for (String argument : List.of(arguments).subList(2, arguments.length)) {
        String[] pair = argument.split("=", 2);
        if (pair.length < 2) throw new IllegalArgumentException("KEY=VALUE is needed, not " + argument);
        grpo.put(pair[0], pair[1]);
      }
      train(sft, Path.of(arguments[0]), start, false);
      train(grpo, start, output, true);
      System.out.println("saved in " + output);
    } catch (TrlException error) {
      System.err.println("error " + error.status() + ": " + error.getMessage());
      System.exit(1);
    } catch (IllegalArgumentException error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }
}
