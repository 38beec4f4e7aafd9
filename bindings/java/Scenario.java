import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import libtrl.Completion;
import libtrl.Config;
import libtrl.Constants.Answer;
import libtrl.Constants.EventKind;
import libtrl.Dataset;
import libtrl.Event;
import libtrl.Generator;
import libtrl.Json;
import libtrl.Model;
import libtrl.Trainer;
import libtrl.Trl;
import libtrl.TrlException;

/**
 * The scenario of bindings/scenario.json in Java: Scenario SCENARIO MODEL OUTPUT. bindings/README.md says what it does and
 * prints; every language prints the same text.
 */
public final class Scenario {
  /** Thrown within an event. */
  private static final class Stop extends Exception {
    private static final long serialVersionUID = 1;

    Stop(String message) {
      super(message);
    }
  }

  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  private static void line(Object... parts) {
    StringBuilder line = new StringBuilder();
    for (Object part : parts) {
      if (line.length() > 0) line.append(' ');
      if (part instanceof Double number) {
        line.append(new BigDecimal(number).setScale(9, RoundingMode.HALF_EVEN).toPlainString());
      } else {
        line.append(part instanceof Boolean yes ? yes ? "1" : "0" : part);
      }
    }
    OUT.print(line.append('\n'));
  }

  private static int onEvent(Event event) {
    long step = (long) event.metric("step");
    if (event.kind() != EventKind.STEP) {
      line("event", event.kind(), "at", step);
      return 0;
    }
    line("step", step, "of", (long) event.metric("max_steps"), "loss", event.metric("loss"));
    return step == 3 ? Answer.STOP : 0;
  }

  /** Pauses a trainer, and does something on another thread a little later, while the next call is held. */
  private static Thread meanwhile(Trainer trainer, Runnable action) {
    trainer.pause();
    Thread thread = new Thread(() -> {
      try {
        Thread.sleep(100);
      } catch (InterruptedException error) {
        return;
      }
      action.run();
    });
    thread.start();
    return thread;
  }

  private static void train(Config config, Dataset rows, Path output) throws Exception {
    try (Trainer trainer = new Trainer(null, config, rows, rows)) {
      line("trained", trainer.train(Scenario::onEvent));
      line("eval_loss", trainer.evaluate().get("eval_loss"));

      Thread thread = meanwhile(trainer, trainer::resume);
      Map<String, Double> metrics = trainer.step();
      thread.join();
      line("step", metrics.get("step").longValue(), "after a pause, loss", metrics.get("loss"));

      thread = meanwhile(trainer, trainer::cancel);
      try {
        trainer.step();
      } catch (TrlException.Cancelled error) {
        line("cancelled, status", error.status());
      }
      thread.join();
      trainer.resume();

      trainer.save(null, Config.of("save.kind", "checkpoint"));
      line("checkpoint", Files.isRegularFile(output.resolve("checkpoint-4/trainer_state.json")));

      try {
        trainer.train(event -> {
          throw new Stop("event " + event.kind() + " at " + (long) event.metric("step"));
        });
      } catch (Exception error) {
        if (!(error instanceof Stop)) throw error;
        line("raised again:", error.getMessage());
      }
      line("trained", trainer.train(Scenario::onEvent));
      line("trained", trainer.train(Scenario::onEvent));
      trainer.save(output.resolve("model"));
    }
  }

  private static void generate(Path path, String prompt, List<Map<String, ?>> options) {
    try (Model model = new Model(path); Generator generator = model.generator()) {
      for (Map<String, ?> keys : options) {
        StringBuilder text = new StringBuilder();
        Completion completion = generator.generate(List.of(prompt), new Config(keys), token -> {
          line("token", token.id());
          text.append(token.text());
          return 0;
        }).get(0);
        line(completion.json());
        line("streamed", text.toString().equals(completion.text()));
      }
    }
  }

  @SuppressWarnings("unchecked")
  public static void main(String[] arguments) throws Exception {
    Map<String, Object> scenario = (Map<String, Object>) Json.parse(Files.readString(Path.of(arguments[0])));
    Path output = Path.of(arguments[2]);
    line("version", Trl.version());

    Config config = new Config((Map<String, ?>) scenario.get("config"));
    config.put("model_name_or_path", arguments[1]).put("output_dir", output);
    line("learning_rate", config.text("learning_rate"), "from", config.origin("learning_rate"));
    line("weight_decay", config.text("weight_decay"), "from", config.origin("weight_decay"));
    try {
      config.put((String) scenario.get("unknown_key"), 1);
    } catch (TrlException error) {
      line("refused", error.key(), "status", error.status());
    }

    List<Map<String, Object>> rows = ((List<Object>) scenario.get("rows")).stream().map(text -> Map.of("text", text)).toList();
    Dataset memory = Dataset.ofRows(rows), asked = Dataset.ofIterable(rows);
    line("rows in memory", memory.rowCount(), "rows of a callback", asked.rowCount());
    train(config, memory, output);

    config.put("resume_from_checkpoint", output.resolve("checkpoint-4"));
    try (Trainer resumed = new Trainer(config, asked)) {
      line("resumed at", resumed.describe().get("global_step"));
      resumed.train(Scenario::onEvent);
    }
    generate(output.resolve("model"), (String) scenario.get("prompt"),
        List.of((Map<String, ?>) scenario.get("generate"), (Map<String, ?>) scenario.get("sample")));
  }
}
