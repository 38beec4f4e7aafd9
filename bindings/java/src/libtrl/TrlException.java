package libtrl;

import static libtrl.Loader.lib;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import libtrl.Constants.Status;

/**
 * An error that a function of the library returned, with a class for each status. The wording of the message may change;
 * act on the class, the status and the key.
 */
public class TrlException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /**
   * A place in what was read.
   *
   * @param file the path, or the name that messages give to what is not a file ("text", "memory")
   * @param line in a file of text, from 1; 0: not known
   * @param column in that line, in bytes, from 1; 0: not known
   * @param row of the dataset, from 0; -1: none is at fault, or it is not known
   */
  public record Place(String file, long line, long column, long row) implements java.io.Serializable {}

  /** What the library tells of an error. */
  record Details(int status, String message, String key, Place place, int callbackCode) {}

  private final int status;
  private final String key;
  private final Place place;
  private final int callbackCode;

  TrlException(Details details) {
    super(details.message());
    status = details.status();
    key = details.key();
    place = details.place();
    callbackCode = details.callbackCode();
  }

  /** One of Constants.Status, or a number below 0 that a later version adds. */
  public int status() {
    return status;
  }

  /** The key of the configuration at fault, or null. */
  public String key() {
    return key;
  }

  /** Where in what was read the error is, or null. */
  public Place place() {
    return place;
  }

  /** What the host's own function returned, if that made the error. */
  public int callbackCode() {
    return callbackCode;
  }

  /** The exception of a trl_error; NULL for functions without one. */
  static TrlException of(int status, Pointer error) {
    if (error == null) return of(new Details(status, Call.copy(lib().trl_status_name(status)), null, null, 0));
    try (Memory cells = new Memory(32)) {
      cells.clear();
      boolean placed = lib().trl_error_place(error, cells, cells.share(8), cells.share(16), cells.share(24)) == 1;
      Place place = placed
          ? new Place(Call.copyOrNull(cells.getPointer(0)), cells.getLong(8), cells.getLong(16), cells.getLong(24)) : null;
      return of(new Details(lib().trl_error_code(error), Call.copy(lib().trl_error_message(error)),
          Call.copyOrNull(lib().trl_error_key(error)), place, lib().trl_error_callback_code(error)));
    }
  }

  static TrlException of(Details details) {
    return switch (details.status()) {
      case Status.E_INVALID_ARGUMENT -> new InvalidArgument(details);
      case Status.E_INVALID_CONFIG -> new InvalidConfig(details);
      case Status.E_NOT_FOUND -> new NotFound(details);
      case Status.E_IO -> new InputOutput(details);
      case Status.E_FORMAT -> new Format(details);
      case Status.E_UNSUPPORTED -> new Unsupported(details);
      case Status.E_OUT_OF_MEMORY -> new OutOfMemory(details);
      case Status.E_OUT_OF_DEVICE_MEMORY -> new OutOfDeviceMemory(details);
      case Status.E_DEVICE -> new Device(details);
      case Status.E_DISTRIBUTED -> new Distributed(details);
      case Status.E_CANCELLED -> new Cancelled(details);
      case Status.E_BUSY -> new Busy(details);
      case Status.E_CALLBACK -> new Callback(details);
      default -> new Internal(details);
    };
  }

  /** A value out of range, or an object in another state than the call needs. */
  public static final class InvalidArgument extends TrlException {
    private static final long serialVersionUID = 1;

    InvalidArgument(Details details) {
      super(details);
    }
  }

  /** A key of the configuration or its value; key() names it. */
  public static final class InvalidConfig extends TrlException {
    private static final long serialVersionUID = 1;

    InvalidConfig(Details details) {
      super(details);
    }
  }

  /** A file or a name that is not there. */
  public static final class NotFound extends TrlException {
    private static final long serialVersionUID = 1;

    NotFound(Details details) {
      super(details);
    }
  }

  /** Reading or writing failed. */
  public static final class InputOutput extends TrlException {
    private static final long serialVersionUID = 1;

    InputOutput(Details details) {
      super(details);
    }
  }

  /** A malformed file, row or model. */
  public static final class Format extends TrlException {
    private static final long serialVersionUID = 1;

    Format(Details details) {
      super(details);
    }
  }

  /** This build or this process cannot do it. */
  public static final class Unsupported extends TrlException {
    private static final long serialVersionUID = 1;

    Unsupported(Details details) {
      super(details);
    }
  }

  /** The memory of the host, or runtime.host_memory_limit, is not enough. */
  public static final class OutOfMemory extends TrlException {
    private static final long serialVersionUID = 1;

    OutOfMemory(Details details) {
      super(details);
    }
  }

  /** The memory of a device is not enough. */
  public static final class OutOfDeviceMemory extends TrlException {
    private static final long serialVersionUID = 1;

    OutOfDeviceMemory(Details details) {
      super(details);
    }
  }

  /** A device failed. */
  public static final class Device extends TrlException {
    private static final long serialVersionUID = 1;

    Device(Details details) {
      super(details);
    }
  }

  /** Training on several processes failed. */
  public static final class Distributed extends TrlException {
    private static final long serialVersionUID = 1;

    Distributed(Details details) {
      super(details);
    }
  }

  /** The call was cancelled, or the process is ending. */
  public static final class Cancelled extends TrlException {
    private static final long serialVersionUID = 1;

    Cancelled(Details details) {
      super(details);
    }
  }

  /** The object is in use elsewhere, or was used within a function that the library called. */
  public static final class Busy extends TrlException {
    private static final long serialVersionUID = 1;

    Busy(Details details) {
      super(details);
    }
  }

  /** A function of the host returned a number below 0. What one throws is thrown again instead. */
  public static final class Callback extends TrlException {
    private static final long serialVersionUID = 1;

    Callback(Details details) {
      super(details);
    }
  }

  /** A fault of the library. */
  public static final class Internal extends TrlException {
    private static final long serialVersionUID = 1;

    Internal(Details details) {
      super(details);
    }
  }
}
