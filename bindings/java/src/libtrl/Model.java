package libtrl;

import static libtrl.Loader.lib;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/** A Hugging Face directory or a GGUF file, or the model that a trainer trains (Trainer.model). */
public final class Model extends Handle {
  public Model(Path path) {
    this(null, path.toString(), null);
  }

  /** The runtime and options may be null. A path may also be that of files that the host has mounted. */
  public Model(TrlRuntime runtime, String path, Config options) {
    super(Call.create(lib()::trl_model_destroy,
        c -> lib().trl_model_open(c.of(runtime), c.text(path), c.of(options), c.out(), c.error())),
        lib()::trl_model_destroy, runtime);
  }

  Model(Trainer trainer) {
    super(Call.create(lib()::trl_model_destroy, c -> lib().trl_model_from_trainer(c.of(trainer), c.out(), c.error())),
        lib()::trl_model_destroy, trainer);
  }

  /** Converts a model, or an adapter: into one GGUF file if target ends in .gguf, else into a directory. */
  public static void convert(TrlRuntime runtime, Path path, Path target, Config options) {
    Call.status(c -> lib().trl_model_convert(c.of(runtime), c.path(path), c.path(target), c.of(options), c.error()));
  }

  /** The number of parameters, and the model's config.json. */
  public Map<String, Object> describe() {
    return Call.object(c -> lib().trl_model_describe(c.of(this), c.out(), c.error()));
  }

  /** The tensors, with those of adapters: maps of name, shape, dtype, stored, trained and gradient. */
  @SuppressWarnings("unchecked")
  public List<Map<String, Object>> tensors() {
    return (List<Map<String, Object>>) Call.json(c -> lib().trl_model_get_tensors(c.of(this), c.out(), c.error()));
  }

  /** A tensor; what is one of Constants.TensorForm. */
  public Tensor read(String name, int what) {
    try (Call call = new Call()) {
      call.run(c -> lib().trl_model_read_tensor(c.of(this), c.text(name), what, c.out(), c.error()));
      return Tensor.taken(call.pointer(0));
    }
  }

  /** Gives a tensor of the model the values of another one, of the same shape and of any type of floating-point numbers. */
  public void write(String name, Tensor values) {
    Call.status(c -> lib().trl_model_write_tensor(c.of(this), c.text(name), values.lend(c), c.error()));
    java.lang.ref.Reference.reachabilityFence(values);
  }

  /** Adds a saved LoRA adapter, which is not used yet. */
  public void addAdapter(String name, String path) {
    Call.status(c -> lib().trl_model_add_adapter(c.of(this), c.text(name), c.text(path), c.error()));
  }

  public void addAdapter(String name, Path path) {
    addAdapter(name, path.toString());
  }

  public void removeAdapter(String name) {
    Call.status(c -> lib().trl_model_remove_adapter(c.of(this), c.text(name), c.error()));
  }

  /** Chooses the adapter to compute with; null: only the model. */
  public void useAdapter(String name) {
    Call.status(c -> lib().trl_model_use_adapter(c.of(this), c.text(name), c.error()));
  }

  /** Merges an adapter into the weights; null undoes it. */
  public void mergeAdapter(String name) {
    Call.status(c -> lib().trl_model_merge_adapter(c.of(this), c.text(name), c.error()));
  }

  /** Saves the model, or its adapter (save.kind). */
  public void save(String path, Config options) {
    Call.status(c -> lib().trl_model_save(c.of(this), c.text(path), c.of(options), c.error()));
  }

  public void save(Path path) {
    save(path.toString(), null);
  }

  /** The scores that a reward model gives to texts; form is one of Constants.TextForm. */
  public float[] score(List<String> texts, int form, Config options) {
    List<byte[]> data = texts.stream().map(Call::utf8).toList();
    try (Call call = new Call()) {
      Memory scores = call.room(4L * data.size());
      call.run(c -> lib().trl_model_score(c.of(this), c.texts(data), c.sizes(data), data.size(), form, c.of(options), scores,
          c.error()));
      return data.isEmpty() ? new float[0] : scores.getFloatArray(0, data.size());
    }
  }

  /** A generator with this model and its own tokenizer. */
  public Generator generator() {
    return generator(null);
  }

  /** A generator with this model and another tokenizer. */
  public Generator generator(Tokenizer tokenizer) {
    Pointer made = Call.create(lib()::trl_generator_destroy,
        c -> lib().trl_generator_create(c.of(this), c.of(tokenizer), c.out(), c.error()));
    return new Generator(made, this, tokenizer);
  }
}
