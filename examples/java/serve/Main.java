import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import libtrl.Config;
import libtrl.Json;
import libtrl.Model;
import libtrl.Server;
import libtrl.TrlException;
import libtrl.TrlRuntime;

/**
 * Serves a model over HTTP from within a program: Main MODEL [--stay] [KEY=VALUE ...]. MODEL is a Hugging Face directory or a
 * GGUF file; keys are those of the groups `serve` and `generate`. The program asks its own server; with --stay it then
 * serves until Ctrl-C.
 */
public final class Main {
  /** Called within calls of the server such as start and await, and not on its threads. */
  private static void onLog(int level, String component, String text) {
    System.err.println(component + ": " + text);
  }

  /** The status and the JSON of an answer, as any client gets them. */
  private static String complete(Object address, String prompt) throws IOException, InterruptedException {
    String body = "{\"model\": \"tiny\", \"prompt\": " + Json.write(prompt) + ", \"max_tokens\": 16}";
    HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + address + "/v1/completions"))
        .header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(body)).build();
    HttpResponse<String> response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    return response.statusCode() + " " + response.body();
  }

  private static void run(String path, boolean stay, Config config) throws IOException, InterruptedException {
    try (TrlRuntime runtime = new TrlRuntime(config)) {
      runtime.setLog(Main::onLog);
      try (Model model = new Model(runtime, path, config); Server server = new Server(runtime, config)) {
        server.addModel("tiny", model);
        server.start();
        Object address = server.describe().get("address");
        System.out.println(complete(address, "The kernel"));
        server.sleep(null, 1, null); // the memory of keys and values goes back to the system
        System.out.println(complete(address, "The kernel"));
        server.wakeUp(null, null);
        if (stay) {
          Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (!server.isClosed()) server.stop(); // Ctrl-C: requests that run may end
          }));
          server.await(null);
        }
        server.stop();
        System.out.println("stopped");
      }
    }
  }

  public static void main(String[] arguments) throws IOException, InterruptedException {
    if (arguments.length < 1) {
      System.err.println("usage: Main MODEL [--stay] [KEY=VALUE ...]");
      System.exit(1);
    }
    List<String> pairs = new ArrayList<>(List.of(arguments).subList(1, arguments.length));
    boolean stay = pairs.remove("--stay");
    try (Config config = Config.of("serve.port", 0)) { // any that is free
      for (String argument : pairs) {
        String[] pair = argument.split("=", 2);
        if (pair.length < 2) throw new IllegalArgumentException("KEY=VALUE is needed, not " + argument);
        config.put(pair[0], pair[1]);
      }
      run(arguments[0], stay, config);
    } catch (TrlException error) {
      System.err.println("error " + error.status() + ": " + error.getMessage());
      System.exit(1);
    } catch (IllegalArgumentException error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }
}
