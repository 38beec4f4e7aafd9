package libtrl;

import static libtrl.Loader.lib;

import java.nio.file.Path;
import java.util.Map;

/** The library itself. */
public final class Trl {
  private Trl() {}

  /**
   * Loads the library: of this path, or of TRL_LIBRARY, or the one next to this package, or the one that pkg-config or the
   * loader finds. Without this call the first use of anything does it.
   */
  public static void load(Path path) {
    Loader.load(path == null ? null : path.toString());
  }

  /** The version of the library. */
  public static String version() {
    return Call.copy(lib().trl_version_string());
  }

  /** The version of the library: (major << 16) | (minor << 8) | patch. */
  public static int versionNumber() {
    return lib().trl_version();
  }

  /** How the library was built. */
  @SuppressWarnings("unchecked")
  public static Map<String, Object> buildInfo() {
    return (Map<String, Object>) Json.parse(Call.copy(lib().trl_build_info()));
  }

  /** Whether this build has a feature of the list `features` of buildInfo. */
  public static boolean hasFeature(String name) {
    try (Call call = new Call()) {
      return lib().trl_has_feature(call.text(name)) == 1;
    }
  }

  /** The name of a status, such as "TRL_E_BUSY"; of an unknown one, of what it is treated as. */
  public static String statusName(int status) {
    return Call.copy(lib().trl_status_name(status));
  }

  /** Ends the calls that are in progress in the whole process, from any thread. */
  public static void cancelAll() {
    lib().trl_runtime_cancel(null);
  }

  /** Ends the threads that the library keeps between calls; it starts them again when it needs them. */
  public static void shutdown() {
    Call.status(c -> lib().trl_runtime_shutdown(c.error()));
  }
}
