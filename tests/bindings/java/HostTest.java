package libtrl;

import static libtrl.Check.FILE;
import static libtrl.Check.FOLDER;
import static libtrl.Check.MODEL;
import static libtrl.Check.equal;
import static libtrl.Check.has;
import static libtrl.Check.text;
import static libtrl.Check.that;
import static libtrl.Check.thrown;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import com.sun.jna.Library;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import libtrl.Constants.LogLevel;
import libtrl.Constants.OptionType;
import libtrl.Constants.Progress;
import libtrl.Constants.Status;

/** The binding for Java, as far as it opens no engine. */
public final class HostTest {
  static final List<Map<String, Object>> ROWS =
      IntStream.range(0, 8).mapToObj(i -> text("one two three four five " + i)).toList();

  private HostTest() {}

  public static void main(String[] names) {
    Check.run(HostTest.class, names);
    Check.end();
  }

  // ---- loading ----

  public interface Newer extends Library {
    void trl_new();
  }

  public static void aLibraryOfAnotherKindIsRefused() {
    has(thrown(UnsatisfiedLinkError.class, () -> Loader.open("/nowhere/libtrl.so", 0, 1)).getMessage(),
        "the library /nowhere/libtrl.so cannot be loaded");
    String path = Loader.path();
    has(thrown(UnsatisfiedLinkError.class, () -> Loader.open(path, 9, 1)).getMessage(), "and this package is for 9.1");
    has(thrown(UnsatisfiedLinkError.class, () -> Loader.open(path, 0, 9)).getMessage(), "and this package is for 0.9");
    has(thrown(UnsatisfiedLinkError.class, () -> Native.load(path, Newer.class).trl_new()).getMessage(), "trl_new");
    has(thrown(IllegalStateException.class, () -> Trl.load(Path.of("/nowhere/libtrl.so"))).getMessage(), "loaded already");
    Trl.load(null);
  }

  /** A program that the next test runs. */
  public static final class Where {
    private Where() {}

    public static void main(String[] arguments) {
      Trl.version();
      System.out.print(Loader.path());
    }
  }

  public static void aLibraryNextToTheJarIsFound() throws Exception {
    Path folder = Check.folder(), made = Files.createDirectory(folder.resolve("lib")).resolve("libtrl.so.0");
    Files.createSymbolicLink(made, Path.of(Loader.path()).toRealPath());
    List<String> classes = new ArrayList<>();
    for (String part : System.getProperty("java.class.path").split(":")) {
      boolean jar = part.endsWith("libtrl.jar");
      classes.add(jar ? Files.copy(Path.of(part), folder.resolve("libtrl.jar")).toString() : part);
    }
    Check.Said said = Check.java(String.join(":", classes), null, "libtrl.HostTest$Where");
    equal(made.toString(), said.out());
    equal("", said.err());
  }

  public static void version() {
    int number = Trl.versionNumber();
    equal((number >> 16) + "." + (number >> 8 & 255) + "." + (number & 255), Trl.version());
    equal(Trl.version(), Trl.buildInfo().get("version"));
    for (Object feature : (List<?>) Trl.buildInfo().get("features")) that(Trl.hasFeature((String) feature));
    that(!Trl.hasFeature("no such feature"));
    equal("TRL_E_BUSY", Trl.statusName(Status.E_BUSY));
    equal("TRL_E_INTERNAL", Trl.statusName(-999));
  }

  // ---- options and configurations ----

  public static void eachOptionHasANameADocAndADefaultThatAConfigurationTakes() {
    List<Option> options = Option.all();
    that(options.size() > 500);
    equal(options.size(), new HashSet<>(options.stream().map(Option::name).toList()).size());
    try (Config config = new Config()) {
      for (Option option : options) {
        that(!option.doc().isEmpty() && !option.section().isEmpty() && !option.group().isEmpty() && !option.since().isEmpty());
        that(Set.of("trl", "ours").contains(option.origin()) && option.type() >= 0 && option.type() <= OptionType.MAP);
        equal(option.value(option.defaultText()), config.get(option.name()));
        that(option.unsupportedReason() != null && option.ignoredReason() != null && option.taken() != null);
        that(option.otherNames() != null && option.accepted() != null);
      }
    }
  }

  public static void aTrainerHasItsOwnDefaults() {
    Option rate = Option.of("learning_rate"), loss = Option.of("loss_type");
    that(rate.trainers().contains("dpo") && !rate.defaultText("dpo").equals(rate.defaultText()) && !rate.nullable());
    that(!loss.accepted("dpo").equals(loss.accepted("sft")) && !loss.doc("dpo").equals(loss.doc("sft")));
    equal(null, Option.of("num_generations").defaultText("sft"));
    equal(OptionType.NUMBER, rate.type("dpo"));
    Option older = Option.all().stream().filter(option -> !option.aliases().isEmpty()).findFirst().orElseThrow();
    equal(older.name(), Option.of(older.aliases().get(0)).name());
    equal(null, Option.of("no such key"));
  }

  public static void schema() {
    Map<?, ?> all = (Map<?, ?>) Config.schema(null).get("properties"), sft = (Map<?, ?>) Config.schema("sft").get("properties");
    that(all.containsKey("num_generations") && !sft.containsKey("num_generations") && sft.containsKey("learning_rate"));
    thrown(TrlException.NotFound.class, () -> Config.schema("no such trainer"));
  }

  public static void aConfigurationIsAMapOfWhatWasSet() {
    try (Config config = Config.of("generate.stop", List.of("a", "b"), "learning_rate", 1e-4, "bf16", false, "max_steps", 3,
        "resume_from_checkpoint", null)) {
      equal(List.of("a", "b"), config.get("generate.stop"));
      equal(1e-4, config.get("learning_rate"));
      equal(false, config.get("bf16"));
      equal(3L, config.get("max_steps"));
      equal(null, config.get("resume_from_checkpoint"));
      equal("1e-04", config.text("learning_rate"));
      equal(42L, config.get("seed"));
      equal(List.of("default", "set"), List.of(config.origin("seed"), config.origin("max_steps")));
      that(!config.containsKey("seed") && config.keySet().contains("max_steps"));
      equal(-1L, config.remove("max_steps").get("max_steps"));
      equal(4, config.size());
      try (Config again = new Config(config.toMap())) {
        equal(config.toMap(), again.toMap());
      }
      int walked = 0;
      for (Map.Entry<String, Object> entry : config) walked += entry.getKey().isEmpty() ? 0 : 1;
      equal(4, walked);
      has(config.toString(), "bf16=false");
    }
  }

  public static void aConfigurationReadsTextsAndFiles() throws Exception {
    Path recipe = Files.writeString(Check.folder().resolve("recipe.yaml"), "seed: 8\n");
    try (Config config = new Config()) {
      config.loadText("learning_rate: 1e-3\nseed: 7\n");
      equal(List.of(1e-3, 7L, "text:2"), List.of(config.get("learning_rate"), config.get("seed"), config.origin("seed")));
      equal(8L, config.load(recipe).get("seed"));
      thrown(TrlException.NotFound.class, () -> config.load(Path.of("/nowhere/recipe.yaml")));
      equal(List.of(), config.warnings());
    }
  }

  public static void anErrorHasItsClassStatusKeyAndPlace() {
    try (Config config = new Config()) {
      TrlException.InvalidConfig error = thrown(TrlException.InvalidConfig.class, () -> config.put("learning_rat", 1));
      equal("learning_rat", error.key());
      equal(Status.E_INVALID_CONFIG, error.status());
      has(error.getMessage(), "learning_rate");
      equal(null, error.place());
      thrown(TrlException.InvalidConfig.class, () -> config.put("learning_rate", "fast"));
      equal(Map.of(), config.toMap());
      TrlException.Place place = thrown(TrlException.class, () -> config.loadText("seed: 7\nlearning_rat: 1\n")).place();
      equal("text", place.file());
      equal(2L, place.line());
    }
    try (Dataset rows = Dataset.ofBytes(null, "jsonl", "{\"text\": \"a\"}\n{\"text\"\n".getBytes(StandardCharsets.UTF_8), null)) {
      TrlException.Place place = thrown(TrlException.Format.class, rows::rowCount).place();
      equal(2L, place.line());
    }
  }

  public static void everyErrorHasAClass() throws Exception {
    Set<Class<?>> classes = new HashSet<>();
    int errors = 0;
    for (java.lang.reflect.Field field : Status.class.getFields()) {
      that(field.getType() == int.class && Modifier.isStatic(field.getModifiers()));
      if (field.getInt(null) >= 0) continue;
      errors++;
      TrlException error = TrlException.of(new TrlException.Details(field.getInt(null), "why", "key", null, 7));
      classes.add(error.getClass());
      equal(List.of(field.getInt(null), "why", "key", 7),
          List.of(error.status(), error.getMessage(), error.key(), error.callbackCode()));
    }
    equal(errors, classes.size());
    equal(TrlException.Internal.class, TrlException.of(-999, null).getClass());
    equal(-999, TrlException.of(-999, null).status());
  }

  public static void aClosedObjectIsRefused() {
    Config config = new Config();
    config.close();
    config.close();
    that(config.isClosed());
    has(thrown(IllegalStateException.class, () -> config.put("seed", 1)).getMessage(), "this Config is closed");
    has(thrown(IllegalArgumentException.class, () -> Config.of("seed\0", 1)).getMessage(), "NUL");
    thrown(IllegalArgumentException.class, () -> Config.of("seed"));
  }

  // ---- JSON ----

  public static void json() {
    String text = "{\"a\": [1, -2.5, 1e3, true, false, null, \"é\\n\\u0041🙂\\u0000\"], \"b\": {}, \"c\": [], \"d\": 123456789012345678901}";
    Map<?, ?> value = (Map<?, ?>) Json.parse(text);
    equal(Arrays.asList(1L, -2.5, 1000.0, true, false, null, "é\nA🙂\0"), value.get("a"));
    equal(value, Json.parse(Json.write(value)));
    equal("{\"a\": [1, 2.5, \"x\\\"\\u0001\"]}", Json.write(Map.of("a", new Object[] {1, 2.5f, "x\"\u0001"})));
    for (String bad : List.of("", "{", "[1,]", "01", "1.", "\"a", "\"\\x\"", "\"\\u00\"", "tru", "{} {}", "{1: 2}", "\"\n\"", "-", "\"\\")) {
      thrown(IllegalArgumentException.class, () -> Json.parse(bad));
    }
    thrown(IllegalArgumentException.class, () -> Json.write(Double.NaN));
    thrown(IllegalArgumentException.class, () -> Json.write(new Object()));
  }

  // ---- rows ----

  public static void rowsInMemoryAndAskedFor() {
    equal(8L, Dataset.ofRows(ROWS).rowCount());
    equal(0L, Dataset.ofBytes(null, "jsonl", new byte[0], null).rowCount());
    equal(2L, Dataset.ofBytes(null, "csv", "text\na\nb\n".getBytes(StandardCharsets.UTF_8), null).rowCount());
    Dataset dataset = Dataset.ofIterable(ROWS);
    equal(List.of(8L, 8L), List.of(dataset.rowCount(), dataset.rowCount()));
    Iterator<Map<String, Object>> once = ROWS.iterator();
    Dataset read = Dataset.ofIterable(() -> once);
    equal(8L, read.rowCount());
    has(thrown(IllegalStateException.class, read::rowCount).getMessage(), "gives them once");
  }

  public static void columnsKeepTheirTypes() {
    Map<String, Object> row = Map.of("messages", List.of(Map.of("role", "user", "content", "é 字 🙂"),
        Map.of("role", "assistant", "content", "a\0b")), "score", 1.5);
    Map<String, Object> ids = Map.of("input_ids", new int[] {5, 6, 7}, "labels", new int[] {-100, 6, 7});
    try (Tokenizer tokenizer = new Tokenizer(MODEL)) {
      equal(Dataset.ofRows(List.of(row)).example(tokenizer, 0, null), Dataset.ofIterable(List.of(row)).example(tokenizer, 0, null));
      Map<String, Object> example = Dataset.ofIterable(List.of(ids)).example(tokenizer, 0, null);
      equal(List.of(5L, 6L, 7L), example.get("input_ids"));
      equal(List.of(-100L, 6L, 7L), example.get("labels"));
    }
  }

  private static Iterable<Map<String, Object>> rows(Check.Body atThree) {
    return () -> new Iterator<>() {
      private int given;

      @Override
      public boolean hasNext() {
        return true;
      }

      @Override
      public Map<String, Object> next() {
        if (given++ < 3) return text("a row");
        try {
          atThree.run();
        } catch (Throwable thrown) {
          throw Functions.<RuntimeException>again(thrown);
        }
        return text("a row");
      }
    };
  }

  public static void anExceptionComesThrough() {
    for (Throwable wanted : List.of(new Check.Oops("checked"), new IllegalStateException("unchecked"), new Error("an error"))) {
      Dataset dataset = Dataset.ofIterable(rows(() -> {
        throw wanted;
      }));
      equal(wanted, thrown(Throwable.class, dataset::rowCount));
    }
    Dataset dataset = Dataset.ofIterable(() -> {
      throw new IllegalStateException("at the start");
    });
    has(thrown(IllegalStateException.class, dataset::rowCount).getMessage(), "at the start");
    has(thrown(IllegalArgumentException.class, () -> Dataset.ofIterable(List.of(text("half: \ud800"))).rowCount()).getMessage(),
        "surrogate");
    thrown(IllegalArgumentException.class, () -> Dataset.ofIterable(List.of(Map.of("a", new Object()))).rowCount());
    thrown(NullPointerException.class, () -> Dataset.ofIterable(Collections.singletonList(null)).rowCount());
    thrown(StackOverflowError.class, () -> Dataset.ofIterable(rows(HostTest::deeper)).rowCount());
    equal(8L, Dataset.ofIterable(ROWS).rowCount());
  }

  private static void deeper() {
    deeper();
    that(true);
  }

  public static void callsWithinAFunctionHaveExceptionsOfTheirOwn() {
    Dataset inner = Dataset.ofRows(ROWS);
    boolean[] seen = {false};
    Dataset dataset = Dataset.ofIterable(rows(() -> {
      thrown(TrlException.Busy.class, inner::rowCount);
      seen[0] = true;
      throw new Check.Oops("and one of this function");
    }));
    has(thrown(Check.Oops.class, dataset::rowCount).getMessage(), "of this function");
    that(seen[0]);
  }

  public static void theGarbageCollectorMayRunInFunctions() {
    boolean[] more = {true};
    Dataset dataset = Dataset.ofIterable(() -> ROWS.stream().peek(row -> System.gc()).iterator());
    equal(8L, dataset.rowCount());
    that(more[0]);
  }

  public static void aCloseWithinAFunctionWaits() {
    Dataset[] own = {null};
    own[0] = Dataset.ofIterable(() -> ROWS.stream().peek(row -> own[0].close()).iterator());
    equal(8L, own[0].rowCount());
    thrown(IllegalStateException.class, own[0]::rowCount);
  }

  public static void aConfigurationNamesRows() {
    Dataset.Named named = Dataset.open(null, Config.of("dataset_name", FILE));
    equal(null, named.evaluation());
    equal(Dataset.open(FILE).rowCount(), named.train().rowCount());
    named = Dataset.open(null, Config.of("dataset_name", FILE, "eval_dataset_name", FILE));
    equal(named.evaluation().rowCount(), named.train().rowCount());
    thrown(TrlException.NotFound.class, () -> Dataset.open(null, Config.of("dataset_name", "/nowhere.jsonl")));
  }

  public static void lengthsExamplesAndBatches() {
    Tokenizer tokenizer = new Tokenizer(MODEL);
    Dataset rows = Dataset.ofRows(ROWS);
    Dataset.Profile profile = rows.profile(tokenizer, Config.of("profile.max_lengths", List.of(4, 16)));
    equal(8L, profile.numbers().get("rows"));
    has(profile.plot(), "\n");
    Map<String, Object> example = rows.example(tokenizer, 2, null);
    equal(((List<?>) example.get("input_ids")).size(), ((List<?>) example.get("labels")).size());
    Config two = Config.of("per_device_train_batch_size", 2);
    List<Object> seen = new ArrayList<>();
    rows.visitBatches(tokenizer, two, 1, 100, batch -> {
      seen.add(batch.get("batch"));
      return seen.size() == 2 ? 1 : 0;
    });
    equal(List.of(1L, 2L), seen);
    thrown(TrlException.InvalidArgument.class, () -> rows.visitBatches(tokenizer, two, 99, 1, batch -> 0));
    thrown(Check.Oops.class, () -> rows.visitBatches(tokenizer, two, 0, 4, batch -> {
      throw new Check.Oops("in a batch");
    }));
    equal(-3, thrown(TrlException.Callback.class, () -> rows.visitBatches(tokenizer, two, 0, 4, batch -> -3)).callbackCode());
  }

  // ---- Arrow ----

  interface GetSchema extends Callback {
    int invoke(Pointer stream, Pointer schema);
  }

  interface Release extends Callback {
    void invoke(Pointer stream);
  }

  interface LastError extends Callback {
    Pointer invoke(Pointer stream);
  }

  public static void anArrowStreamIsTakenOver() {
    if (!Trl.hasFeature("arrow")) return;
    GetSchema fails = (stream, schema) -> 5;
    LastError none = stream -> null;
    int[] released = {0};
    Release release = stream -> {
      released[0]++;
      stream.setPointer(24, null);
    };
    Memory stream = new Memory(40);
    stream.clear();
    stream.setPointer(0, CallbackReference.getFunctionPointer(fails));
    stream.setPointer(8, CallbackReference.getFunctionPointer(fails));
    stream.setPointer(16, CallbackReference.getFunctionPointer(none));
    stream.setPointer(24, CallbackReference.getFunctionPointer(release));
    long address = Pointer.nativeValue(stream);
    equal(5, thrown(TrlException.Callback.class, () -> Dataset.ofArrow(null, address, null)).callbackCode());
    equal(1, released[0]);
    equal(null, stream.getPointer(24));
  }

  // ---- text ----

  public static void textIsEncodedAndDecoded() {
    Tokenizer tokenizer = new Tokenizer(MODEL);
    String text = "the kernel é 字 🙂 \0 " + "long ".repeat(400);
    equal(text, tokenizer.decode(tokenizer.encode(text)));
    equal(0, tokenizer.encode("").length);
    equal("", tokenizer.decode(new int[0], true));
    equal("e", tokenizer.piece(tokenizer.encode("e")[0]));
    that(tokenizer.describe().containsKey("vocab_size"));
    thrown(TrlException.InvalidArgument.class, () -> tokenizer.decode(new int[] {1_000_000_000}));
    thrown(TrlException.NotFound.class, () -> new Tokenizer(Path.of("/nowhere")));
    int[] one = tokenizer.encode("<|im_end|>"), split = tokenizer.encode("<|im_end|>", true, true);
    equal(1, one.length);
    that(split.length > 1);
    equal(one, tokenizer.encode("<|im_end|>", true, false));
    equal("<|im_end|>", tokenizer.decode(split));
  }

  public static void chatsAreRendered() {
    Tokenizer tokenizer = new Tokenizer(MODEL);
    List<Map<String, String>> messages = List.of(Map.of("role", "user", "content", "hi"));
    String plain = tokenizer.applyChatTemplate(messages);
    String longer = tokenizer.applyChatTemplate(Map.of("messages", messages, "add_generation_prompt", true));
    has(plain, "hi");
    that(longer.startsWith(plain) && longer.endsWith("assistant\n"));
  }

  // ---- runtimes ----

  public static void exceptionsOfLogAndProgress() throws Exception {
    TrlRuntime runtime = new TrlRuntime();
    List<String> phases = new ArrayList<>();
    runtime.setProgress((phase, done, total) -> {
      phases.add(phase);
      return 0;
    });
    Dataset.open(runtime, FILE.toString(), null).rowCount();
    that(phases.contains("rows"));
    runtime.setProgress((phase, done, total) -> {
      throw new Check.Oops("in progress");
    });
    Dataset rows = Dataset.open(runtime, FILE.toString(), null);
    has(thrown(Check.Oops.class, rows::rowCount).getMessage(), "in progress");
    runtime.setProgress((phase, done, total) -> Progress.STOP);
    thrown(TrlException.Cancelled.class, rows::rowCount);
    runtime.setProgress(null);
    equal(0, Functions.count());
    rows.rowCount();
    runtime.setLog((level, component, line) -> that(level >= LogLevel.DEBUG));
    runtime.setLog(null);
    equal(0, Functions.count());
  }

  public static void functionsLiveAsLongAsWhatWasMadeWithTheirOwner() throws Exception {
    TrlRuntime runtime = new TrlRuntime();
    int[] called = {0};
    runtime.setProgress((phase, done, total) -> {
      called[0]++;
      return 0;
    });
    Dataset rows = Dataset.open(runtime, FILE.toString(), null);
    runtime.close();
    runtime = null;
    System.gc();
    Thread.sleep(20);
    rows.rowCount();
    that(called[0] > 0);
  }

  private static boolean runtimesAreGone() {
    try (TrlRuntime runtime = new TrlRuntime(Config.of("runtime.threads", 1))) {
      return !runtime.isClosed();
    } catch (TrlException.Busy error) { // one with other threads is still to be collected
      return false;
    }
  }

  public static void memoryAndItsLimit() throws Exception {
    Check.collected(HostTest::runtimesAreGone);
    try (TrlRuntime runtime = new TrlRuntime(Config.of("runtime.threads", 1))) {
      TrlRuntime.Memory memory = runtime.memory(null);
      that(memory.now() <= memory.peak());
      equal(0L, runtime.memory("weights").now());
      thrown(TrlException.NotFound.class, () -> runtime.memory("no such kind"));
      runtime.setMemoryLimit(1L << 40);
      runtime.setMemoryLimit(0);
      thrown(TrlException.InvalidArgument.class, () -> runtime.setMemoryLimit(-1));
    }
  }

  public static void cancelFromAnotherThread() throws Exception {
    for (boolean all : new boolean[] {false, true}) {
      TrlRuntime runtime = new TrlRuntime();
      CountDownLatch reading = new CountDownLatch(1);
      Thread thread = new Thread(() -> {
        try {
          reading.await();
        } catch (InterruptedException error) {
          return;
        }
        if (all) Trl.cancelAll();
        else runtime.cancel();
      });
      thread.start();
      Dataset rows = Dataset.ofIterable(runtime, rows(reading::countDown), null);
      thrown(TrlException.Cancelled.class, rows::rowCount);
      thread.join();
    }
  }

  public static void filesOfTheHost() throws Exception {
    TrlRuntime runtime = new TrlRuntime();
    List<String> asked = new ArrayList<>();
    runtime.mount("java-model", files(MODEL, asked), null);
    Tokenizer tokenizer = new Tokenizer(runtime, "host://java-model", null);
    equal(new Tokenizer(MODEL).encode("the kernel"), tokenizer.encode("the kernel"));
    that(asked.contains("tokenizer.json"));
    thrown(TrlException.InvalidArgument.class, () -> runtime.mount("java-model", files(MODEL, asked), null));
    runtime.mount("java-none", files(Path.of("/nowhere"), asked), null);
    thrown(TrlException.NotFound.class, () -> new Tokenizer(runtime, "host://java-none", null));
    runtime.mount("java-fails", new TrlRuntime.Reader() {
      @Override
      public long size(String file) throws Exception {
        throw new Check.Oops("at a size");
      }

      @Override
      public void read(String file, long offset, java.nio.ByteBuffer into) {}
    }, null);
    has(thrown(Check.Oops.class, () -> new Tokenizer(runtime, "host://java-fails", null)).getMessage(), "at a size");
  }

  /** Reads the files of a folder, a few bytes at a time. */
  static TrlRuntime.Reader files(Path folder, List<String> asked) {
    return new TrlRuntime.Reader() {
      @Override
      public long size(String file) throws Exception {
        asked.add(file);
        return Files.size(folder.resolve(file));
      }

      @Override
      public void read(String file, long offset, java.nio.ByteBuffer into) throws Exception {
        try (java.nio.channels.FileChannel channel = java.nio.channels.FileChannel.open(folder.resolve(file))) {
          into.limit(Math.min(into.limit(), 100_000));
          channel.read(into, offset);
        }
      }
    };
  }

  public static void shutdown() {
    Trl.shutdown();
  }

  /** Objects that nobody closes are freed by the garbage collector, and so are functions that hold their own object. */
  public static void whatIsNotClosedIsCollected() throws Exception {
    java.lang.ref.WeakReference<Object> alive = circle();
    Check.collected(() -> alive.get() == null);
    Check.collected(() -> Functions.count() == 0);
    that(FOLDER.toFile().exists());
  }

  private static java.lang.ref.WeakReference<Object> circle() {
    Object[] held = {null};
    TrlRuntime runtime = new TrlRuntime();
    runtime.setLog((level, component, line) -> that(held[0] != null));
    held[0] = Dataset.ofIterable(runtime, () -> {
      that(held[0] != null);
      return ROWS.iterator();
    }, null);
    ((Dataset) held[0]).rowCount();
    return new java.lang.ref.WeakReference<>(held[0]);
  }
}
