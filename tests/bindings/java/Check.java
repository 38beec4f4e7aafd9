package libtrl;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** What the tests of the binding for Java share. */
final class Check {
  interface Body {
    void run() throws Throwable;
  }

  static final class Oops extends Exception {
    private static final long serialVersionUID = 1;

    Oops(String message) {
      super(message);
    }
  }

  /** What a program has said and how it ended. */
  record Said(int code, String out, String err) {}

  static final Path SOURCE = Path.of(System.getProperty("trl.source"));
  static final Path MODEL = SOURCE.resolve("tests/golden/models/qwen2");
  static final Path FILE = SOURCE.resolve("tests/golden/data/datasets/train_lm.jsonl");
  static final Path FOLDER = temporary();
  private static final Set<String> CALLED = ConcurrentHashMap.newKeySet();
  private static int failed, passed;

  private Check() {}

  private static Path temporary() {
    try {
      Path made = Files.createTempDirectory("trl_java.");
      Runtime.getRuntime().addShutdownHook(new Thread(() -> {
        try (Stream<Path> files = Files.walk(made)) {
          files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        } catch (IOException error) {
          System.err.println(error);
        }
      }));
      return made;
    } catch (IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
  }

  static Path folder() throws IOException {
    return Files.createTempDirectory(FOLDER, "run.");
  }

  static void equal(Object expected, Object actual) {
    if (!Objects.deepEquals(expected, actual)) throw new AssertionError(shown(expected) + " was expected, not " + shown(actual));
  }

  private static String shown(Object value) {
    String all = Arrays.deepToString(new Object[] {value});
    return all.substring(1, all.length() - 1);
  }

  static void that(boolean holds) {
    if (!holds) throw new AssertionError("it does not hold");
  }

  static void has(String text, String part) {
    if (!text.contains(part)) throw new AssertionError("\"" + part + "\" is not in: " + text);
  }

  static <T extends Throwable> T thrown(Class<T> kind, Body body) {
    try {
      body.run();
    } catch (Throwable error) {
      if (kind.isInstance(error)) return kind.cast(error);
      throw new AssertionError("another one was thrown", error);
    }
    throw new AssertionError("nothing was thrown, in place of " + kind);
  }

  /** Waits until the garbage collector has done what makes a condition true. */
  static void collected(java.util.function.BooleanSupplier condition) throws InterruptedException {
    for (int tries = 0; !condition.getAsBoolean(); tries++) {
      if (tries > 200) throw new AssertionError("not collected");
      System.gc();
      Thread.sleep(10);
    }
  }

  /** Runs a program of Java with the classes at hand. */
  static Said java(String classes, String library, String program, String... arguments) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin/java").toString(), "-ea", "-cp",
        classes == null ? System.getProperty("java.class.path") : classes, "-Dtrl.source=" + SOURCE, program));
    command.addAll(List.of(arguments));
    Path out = Files.createTempFile(FOLDER, "out", ""), err = Files.createTempFile(FOLDER, "err", "");
    ProcessBuilder builder = new ProcessBuilder(command).redirectOutput(out.toFile()).redirectError(err.toFile());
    builder.environment().remove("TRL_LIBRARY");
    if (library != null) builder.environment().put("TRL_LIBRARY", library);
    Process process = builder.start();
    if (!process.waitFor(60, TimeUnit.SECONDS)) {
      process.destroyForcibly();
      throw new AssertionError(program + " has not ended");
    }
    return new Said(process.exitValue(), Files.readString(out), Files.readString(err));
  }

  /** Runs each test of a class, a static method without parameters, or those that are named. */
  static void run(Class<?> tests, String... names) {
    count();
    Stream.of(tests.getDeclaredMethods())
        .filter(method -> java.lang.reflect.Modifier.isPublic(method.getModifiers()) && method.getParameterCount() == 0)
        .filter(method -> names.length == 0 || List.of(names).contains(method.getName()))
        .sorted(Comparator.comparing(Method::getName)).forEach(Check::run);
  }

  private static void run(Method test) {
    String name = test.getDeclaringClass().getSimpleName() + "." + test.getName();
    try {
      test.invoke(null);
      collected(() -> Functions.count() == 0); // no function of the host is still kept
      that(Functions.FRAME.get().pending == null && Functions.FRAME.get().calls == 0);
      passed++;
    } catch (InvocationTargetException error) {
      failed++;
      System.err.print(name + ": ");
      error.getCause().printStackTrace();
    } catch (Throwable error) {
      failed++;
      System.err.print(name + ": ");
      error.printStackTrace();
    }
  }

  /** Has the functions of the library that are called noted. */
  private static void count() {
    if (!CALLED.isEmpty()) return;
    Abi abi = Loader.lib();
    CALLED.add("trl_version"); // that loading called
    Loader.loaded = (Abi) Proxy.newProxyInstance(Abi.class.getClassLoader(), new Class<?>[] {Abi.class}, (proxy, method, values) -> {
      CALLED.add(method.getName());
      try {
        return method.invoke(abi, values);
      } catch (InvocationTargetException error) {
        throw error.getCause();
      }
    });
  }

  /** The functions that no test has called. */
  static List<String> left() {
    return Stream.of(Abi.class.getDeclaredMethods()).map(Method::getName).filter(name -> !CALLED.contains(name)).sorted().toList();
  }

  static void end() {
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed > 0 ? 1 : 0);
  }

  static Map<String, Object> text(String text) {
    return Map.of("text", text);
  }
}
