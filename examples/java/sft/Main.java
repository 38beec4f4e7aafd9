import java.nio.file.Path;
import libtrl.Config;
import libtrl.Constants.EventKind;
import libtrl.Constants.LogLevel;
import libtrl.Dataset;
import libtrl.Event;
import libtrl.Generator;
import libtrl.Trainer;
import libtrl.TrlException;
import libtrl.TrlRuntime;

/**
 * Fine-tunes a model on a JSONL file and shows what it writes before and after: Main MODEL ROWS OUTPUT [KEY=VALUE ...]
 * MODEL is a Hugging Face directory or a GGUF file; every key of `trl options sft` may follow.
 */
public final class Main {
  private static final String PROMPT = "The kernel";

  private static void onLog(int level, String component, String text) {
    if (level >= LogLevel.WARNING) System.err.println(component + ": " + text);
  }

  /** Called on this thread, between the steps. Answer.STOP, SAVE and EVALUATE as results would ask for more. */
  private static int onEvent(Event event) {
    if (event.kind() == EventKind.STEP) {
      System.out.printf("step %.0f of %.0f: loss %.4f%n", event.metric("step"), event.metric("max_steps"), event.metric("loss"));
    }
    return 0;
  }

  private static void printCompletion(Trainer trainer, Config config) {
    try (Generator generator = trainer.generator()) {
      System.out.print(PROMPT + " ->");
      for (Generator.Token token : generator.stream(PROMPT, config)) {
        System.out.print(token.text());
        System.out.flush();
      }
      System.out.println();
    }
  }

  private static void run(String model, String rows, String output, Config config) {
    try (TrlRuntime runtime = new TrlRuntime(config)) {
      runtime.setLog(Main::onLog);
      try (Dataset dataset = Dataset.open(runtime, rows, config); Trainer trainer = new Trainer(runtime, config, dataset, null)) {
        printCompletion(trainer, config);
        trainer.train(Main::onEvent);
        trainer.save();
        printCompletion(trainer, config);
      }
    }
    System.out.println("saved in " + output);
  }

  public static void main(String[] arguments) {
    if (arguments.length < 3) {
      System.err.println("usage: Main MODEL ROWS OUTPUT [KEY=VALUE ...]");
      System.exit(1);
    }
    try (Config config = Config.of("model_name_or_path", Path.of(arguments[0]), "output_dir", Path.of(arguments[2]),
        "learning_rate", 1e-3, "per_device_train_batch_size", 4, "max_steps", 10, "save_strategy", "no",
        "generate.max_new_tokens", 16)) {
      for (int i = 3; i < arguments.length; i++) {
        String[] pair = arguments[i].split("=", 2);
        if (pair.length < 2) throw new IllegalArgumentException("KEY=VALUE is needed, not " + arguments[i]);
        config.put(pair[0], pair[1]);
      }
      run(arguments[0], arguments[1], arguments[2], config);
    } catch (TrlException error) {
      System.err.println("error " + error.status() + ": " + error.getMessage());
      System.exit(1);
    } catch (IllegalArgumentException error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }
}
