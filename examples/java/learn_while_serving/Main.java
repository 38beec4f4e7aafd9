import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import libtrl.Completion;
import libtrl.Config;
import libtrl.Constants.Status;
import libtrl.Dataset;
import libtrl.Generator;
import libtrl.Trainer;
import libtrl.TrlException;

/**
 * Answers requests while it learns from corrections: Main MODEL OUTPUT
 * MODEL is a Hugging Face directory or a GGUF file; OUTPUT gets the adapter.
 */
public final class Main {
  private static final String QUESTION = "The kernel answers the";
  private static final String ANSWER = " driver at noon";

  private static Map<String, String> row(String prompt, String completion) {
    return Map.of("prompt", prompt, "completion", completion);
  }

  /** The rows of the run, which it reads about a thousand ahead: all that was told so far, again and again. */
  private static Iterator<Map<String, String>> again(List<Map<String, String>> told) {
    return new Iterator<>() {
      private int next = 0;

      @Override
      public boolean hasNext() {
        return true;
      }

      @Override
      public Map<String, String> next() {
        return told.get(next++ % told.size());
      }
    };
  }

  /** One request, token by token; the steps of the trainer go on meanwhile. */
  private static Completion ask(Generator generator, Config options) {
    long number = generator.add(QUESTION, options);
    while (generator.step()) continue;
    return generator.take(number, 1).get(0);
  }

  /** Asks until the answer is right or the run is over; returns how often. */
  private static int serve(Generator generator, Config config, List<Map<String, String>> told, Thread training) {
    String last = "";
    int asked = 0;
    for (; !last.startsWith(ANSWER) && training.isAlive(); asked++) {
      if (asked == 20) {
        System.out.println("corrected: " + QUESTION + ANSWER);
        told.add(row(QUESTION, ANSWER));
      }
      Completion done = ask(generator, config);
      Object step = ((Map<?, ?>) done.details().get("weights")).get("last_version"); // whose adapter wrote the last token
      if (!done.text().equals(last)) System.out.println("step " + step + ": " + QUESTION + done.text());
      last = done.text();
    }
    if (!last.startsWith(ANSWER)) throw new IllegalStateException("the run ended before it was learned");
    return asked;
  }

  private static void run(Config config, String output) throws InterruptedException {
    List<Map<String, String>> told = new CopyOnWriteArrayList<>(List.of(row("The scheduler", " picks a task.")));
    try (Dataset dataset = Dataset.ofIterable(null, () -> again(told), config);
        Trainer trainer = new Trainer(null, config, dataset, null);
        Generator generator = trainer.generator()) {
      Thread training = new Thread(() -> {
        try {
          trainer.train();
        } catch (TrlException error) {
          if (error.status() != Status.E_CANCELLED) System.err.println("error " + error.status() + ": " + error.getMessage());
        }
      });
      training.start();
      int asked;
      try {
        asked = serve(generator, config, told, training);
      } finally {
        trainer.cancel();
        training.join();
      }
      trainer.save();
      System.out.println(asked + " requests, none lost; the adapter is in " + output);
    }
  }

  public static void main(String[] arguments) throws InterruptedException {
    if (arguments.length != 2) {
      System.err.println("usage: Main MODEL OUTPUT");
      System.exit(1);
    }
    try (Config config = Config.of("model_name_or_path", Path.of(arguments[0]), "output_dir", Path.of(arguments[1]),
        "dtype", "float32", "bf16", false, "use_peft", true, "lora_r", 8, "lora_target_modules", "all-linear", "serve_share", 0.5,
        "serve_swap", "token", "dataset_streaming", true, "train_sampling_strategy", "sequential", "learning_rate", 1e-2,
        "lr_scheduler_type", "constant", "max_steps", 2000, "per_device_train_batch_size", 16, "save_strategy", "no",
        "report_to", "none", "logging_strategy", "no", "generate.max_new_tokens", 8)) {
      run(config, arguments[1]);
    } catch (TrlException error) {
      System.err.println("error " + error.status() + ": " + error.getMessage());
      System.exit(1);
    } catch (IllegalStateException error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }
}
