package libtrl;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A tensor as DLPack has it (DLManagedTensorVersioned, version 1): contiguous numbers in memory of the library or of the
 * host. Its memory is freed by close, or when neither it nor one of its buffers is in use any more; after close, no buffer
 * of it may be used.
 */
public final class Tensor implements AutoCloseable {
  interface Deleter extends Callback {
    void invoke(Pointer tensor);
  }

  private static final Cleaner CLEANER = Cleaner.create();
  private static final int SIZE = 80, DELETER = 16, FLAGS = 24, DATA = 32, DEVICE = 40, NDIM = 48, DTYPE = 52, SHAPE = 56,
      STRIDES = 64, BYTE_OFFSET = 72, READ_ONLY = 1, CPU = 1;
  private static final Deleter NOTHING = tensor -> {}; // the memory of a tensor of the host is that of its Java object

  /** What frees the memory when the last one that uses it is gone. */
  private static final class Owner {
    private final Runnable free;
    private final AtomicInteger users = new AtomicInteger();
    private boolean freed;

    Owner(Runnable free) {
      this.free = free;
    }

    <T> T add(T user) {
      users.incrementAndGet();
      CLEANER.register(user, () -> {
        if (users.decrementAndGet() == 0) free();
      });
      return user;
    }

    synchronized void free() {
      if (!freed) free.run();
      freed = true;
    }

    synchronized boolean isFreed() {
      return freed;
    }
  }

  private final Owner owner;
  private final Pointer data;
  private final String dtype;
  private final int bytes; // of an element
  private final long[] shape;
  private final int device;
  private final boolean readOnly;

  private Tensor(Owner owner, Pointer data, String dtype, int bytes, long[] shape, int device, boolean readOnly) {
    this.owner = owner;
    this.data = data;
    this.dtype = dtype;
    this.bytes = bytes;
    this.shape = shape;
    this.device = device;
    this.readOnly = readOnly;
    owner.add(this);
  }

  /** A tensor that the library hands out. */
  static Tensor taken(Pointer tensor) {
    int code = tensor.getByte(DTYPE) & 255, bits = tensor.getByte(DTYPE + 1) & 255, lanes = tensor.getShort(DTYPE + 2) & 65535;
    int ndim = tensor.getInt(NDIM);
    long[] shape = ndim == 0 ? new long[0] : tensor.getPointer(SHAPE).getLongArray(0, ndim);
    Pointer data = tensor.getPointer(DATA);
    Owner owner = new Owner(() -> {
      Pointer deleter = tensor.getPointer(DELETER);
      if (deleter != null) Function.getFunction(deleter).invokeVoid(new Object[] {tensor});
    });
    return new Tensor(owner, data == null ? null : data.share(tensor.getLong(BYTE_OFFSET)), dtype(code, bits),
        bits * lanes / 8, shape, tensor.getInt(DEVICE), (tensor.getLong(FLAGS) & READ_ONLY) != 0);
  }

  /** A tensor of the host: the bytes of a buffer from its position to its limit. A direct buffer is used in place. */
  public static Tensor of(ByteBuffer values, String dtype, long... shape) {
    int bytes = (int) (type(dtype) >>> 8 & 255) / 8;
    long count = count(shape);
    if (values.remaining() != count * bytes) {
      throw new IllegalArgumentException("a " + dtype + " tensor of " + count + " numbers has " + count * bytes + " bytes, not "
          + values.remaining());
    }
    Object memory;
    Pointer data;
    if (values.isDirect()) {
      ByteBuffer slice = values.slice();
      memory = slice;
      data = Native.getDirectBufferPointer(slice);
    } else {
      Memory copied = new Memory(Math.max(1, values.remaining()));
      ByteBuffer from = values.duplicate();
      copied.getByteBuffer(0, Math.max(1, values.remaining())).put(from);
      memory = copied;
      data = copied;
    }
    Owner owner = new Owner(() -> Reference.reachabilityFence(memory));
    return new Tensor(owner, data, dtype, bytes, shape.clone(), CPU, values.isReadOnly());
  }

  /** A float32 tensor of the host. */
  public static Tensor of(float[] values, long... shape) {
    ByteBuffer buffer = ByteBuffer.allocateDirect(4 * values.length).order(ByteOrder.nativeOrder());
    buffer.asFloatBuffer().put(values);
    return of(buffer, "float32", shape);
  }

  /** The sizes of its dimensions. */
  public long[] shape() {
    return shape.clone();
  }

  /** "float32", "bfloat16", "int64" ... */
  public String dtype() {
    return dtype;
  }

  /** How many numbers it has. */
  public long count() {
    return count(shape);
  }

  /** The kind of device where it lies, as DLPack numbers them; 1 is the CPU, whose memory buffer() shows. */
  public int device() {
    return device;
  }

  public boolean isReadOnly() {
    return readOnly;
  }

  /** Its memory, in the order of bytes of this machine. */
  public ByteBuffer buffer() {
    return buffer(0, Math.toIntExact(count() * bytes));
  }

  /** A part of its memory, by bytes. */
  public ByteBuffer buffer(long offset, int size) {
    if (owner.isFreed()) throw new IllegalStateException("this Tensor is closed");
    if (device != CPU) throw new IllegalStateException("the tensor lies on device " + device);
    Objects.checkFromIndexSize(offset, (long) size, count() * bytes);
    if (size == 0) return ByteBuffer.allocate(0);
    ByteBuffer whole = owner.add(data.getByteBuffer(offset, size));
    ByteOrder order = ByteOrder.nativeOrder();
    return (readOnly ? whole.asReadOnlyBuffer() : whole.duplicate()).order(order); // which refer to the whole
  }

  /** A copy of the numbers of a float32 tensor. */
  public float[] floats() {
    if (!dtype.equals("float32")) throw new IllegalStateException("the tensor is " + dtype);
    float[] values = new float[Math.toIntExact(count())];
    buffer().asFloatBuffer().get(values);
    return values;
  }

  @Override
  public void close() {
    owner.free();
  }

  @Override
  public String toString() {
    return dtype + Arrays.toString(shape);
  }

  /** A DLManagedTensorVersioned that borrows this tensor for a call. */
  Pointer lend(Call call) {
    if (owner.isFreed()) throw new IllegalStateException("this Tensor is closed");
    Memory tensor = call.room(SIZE), sizes = call.room(16L * shape.length);
    tensor.clear();
    long stride = 1;
    for (int i = shape.length - 1; i >= 0; i--) {
      sizes.setLong(8L * i, shape[i]);
      sizes.setLong(8L * (shape.length + i), stride);
      stride *= shape[i];
    }
    tensor.setInt(0, 1); // the version of DLPack
    tensor.setPointer(DELETER, CallbackReference.getFunctionPointer(NOTHING));
    tensor.setLong(FLAGS, readOnly ? READ_ONLY : 0);
    tensor.setPointer(DATA, data);
    tensor.setInt(DEVICE, device);
    tensor.setInt(NDIM, shape.length);
    tensor.setInt(DTYPE, (int) type(dtype) | 1 << 16);
    tensor.setPointer(SHAPE, sizes);
    tensor.setPointer(STRIDES, sizes.share(8L * shape.length));
    return tensor;
  }

  private static long count(long[] shape) {
    long count = 1;
    for (long size : shape) count = Math.multiplyExact(count, size);
    return count;
  }

  private static final String[] KINDS = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};

  private static String dtype(int code, int bits) {
    if (code == 6 && bits == 8) return "bool";
    return (code < KINDS.length ? KINDS[code] : "dlpack" + code + "_") + bits;
  }

  /** The code, and the bits times 256. */
  private static long type(String dtype) {
    for (int code = 0; code < KINDS.length; code++) {
      for (int bits = 8; bits <= 128; bits *= 2) {
        if (dtype(code, bits).equals(dtype)) return code | bits << 8;
      }
    }
    throw new IllegalArgumentException("\"" + dtype + "\" is not a type such as float32 or bfloat16");
  }
}
