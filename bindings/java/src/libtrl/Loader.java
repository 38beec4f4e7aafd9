package libtrl;

import com.sun.jna.Library;
import com.sun.jna.Native;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.CodeSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Finds libtrl.so and libtrl_serve.so, and loads each at its first use. A function that one lacks fails when it is called. */
final class Loader {
  private static final int RTLD_NOW = 2; // and not RTLD_GLOBAL, which is JNA's default
  private static final List<String> NAMES = List.of("libtrl.so." + Abi.VERSION_MAJOR, "libtrl.so");
  static volatile Abi loaded; // tests put one that counts in its place
  private static String path;
  private static volatile ServeAbi serving;

  private Loader() {}

  /** The functions of the server, whose library is the one beside libtrl.so, or else the loader's. */
  static ServeAbi serve() {
    ServeAbi abi = serving;
    return abi != null ? abi : loadServer();
  }

  private static synchronized ServeAbi loadServer() {
    if (serving != null) return serving;
    Path beside = Path.of(path());
    List<Path> folders = new ArrayList<>();
    if (beside.getParent() != null) folders.add(beside.getParent());
    try {
      if (Files.exists(beside)) folders.add(beside.toRealPath().getParent());
    } catch (IOException error) {
      // its own folder is enough
    }
    List<String> names = NAMES.stream().map(name -> name.replace("libtrl", "libtrl_serve")).toList();
    String found = folders.stream().flatMap(folder -> names.stream().map(folder::resolve)).filter(Files::exists).findFirst()
        .map(Path::toString).orElse(names.get(0));
    return serving = nativeLoad(found, ServeAbi.class, ", beside " + beside);
  }

  /** Loads a library as JNA does; more ends the message if it cannot be. */
  private static <T extends Library> T nativeLoad(String found, Class<T> functions, String more) {
    try {
      return Native.load(found, functions, Map.of(Library.OPTION_OPEN_FLAGS, RTLD_NOW));
    } catch (UnsatisfiedLinkError error) {
      String said = String.valueOf(error.getMessage());
      String reason = said.lines().skip(1).findFirst().orElse(said); // after JNA's own line
      throw new UnsatisfiedLinkError("the library " + found + " cannot be loaded: " + reason + more);
    }
  }

  /** The functions of the library. */
  static Abi lib() {
    Abi abi = loaded;
    return abi != null ? abi : load(null);
  }

  static synchronized Abi load(String given) {
    if (loaded == null) {
      loaded = open(given, Abi.VERSION_MAJOR, Abi.VERSION_MINOR);
    } else if (given != null && !given.equals(path)) {
      throw new IllegalStateException(path + " is loaded already");
    }
    return loaded;
  }

  /** The path of the loaded library. */
  static synchronized String path() {
    lib();
    return path;
  }

  static synchronized Abi open(String given, int major, int minor) {
    String wanted = given != null ? given : System.getenv("TRL_LIBRARY");
    boolean named = wanted != null && !wanted.isEmpty();
    String found = named ? wanted : candidate();
    if (Native.SIZE_T_SIZE != Long.BYTES) throw new UnsatisfiedLinkError("libtrl is for 64-bit systems");
    Abi abi = nativeLoad(found, Abi.class, named ? "" : "; TRL_LIBRARY may have its path");
    int packed = abi.trl_version();
    int libraryMajor = packed >>> 16, libraryMinor = packed >>> 8 & 255;
    if (libraryMajor != major || major == 0 && libraryMinor != minor) { // until 1.0 a minor version may break things
      throw new UnsatisfiedLinkError(found + " is version " + libraryMajor + "." + libraryMinor + ", and this package is for "
          + major + "." + minor);
    }
    path = found;
    return abi;
  }

  private static String candidate() {
    List<Path> folders = new ArrayList<>();
    try {
      CodeSource source = Loader.class.getProtectionDomain().getCodeSource();
      if (source != null && source.getLocation() != null) {
        Path here = Path.of(source.getLocation().toURI());
        Path folder = Files.isDirectory(here) ? here : here.getParent();
        folders.add(folder);
        folders.add(folder.resolve("lib"));
      }
    } catch (URISyntaxException | IllegalArgumentException | java.nio.file.FileSystemNotFoundException error) {
      // classes that come from elsewhere have no folder
    }
    Stream<Path> beside = folders.stream().flatMap(folder -> NAMES.stream().map(folder::resolve));
    return beside.filter(Files::exists).findFirst().or(() -> NAMES.stream().flatMap(Loader::asked).findFirst())
        .map(Path::toString).orElse(NAMES.get(0));
  }

  /** What pkg-config knows. */
  private static Stream<Path> asked(String name) {
    try {
      Process process = new ProcessBuilder("pkg-config", "--variable=libdir", "trl")
          .redirectError(ProcessBuilder.Redirect.DISCARD).start();
      process.getOutputStream().close();
      String folder = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
      return folder.isEmpty() ? Stream.empty() : Stream.of(Path.of(folder, name)).filter(Files::exists);
    } catch (IOException error) { // there is no pkg-config
      return Stream.empty();
    }
  }
}
