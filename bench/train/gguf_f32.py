# usage: gguf_f32.py IN.gguf OUT.gguf
# The same model with float32 weights, for llama_bench: llama_opt trains nothing else. Needs the package gguf.
import sys

import gguf


def main():
    reader = gguf.GGUFReader(sys.argv[1])
    architecture = reader.get_field("general.architecture").contents()
    writer = gguf.GGUFWriter(sys.argv[2], architecture)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        if field.name == "general.file_type":
            writer.add_file_type(gguf.LlamaFileType.ALL_F32)
            continue
        kind = field.types[0]
        writer.add_key_value(field.name, field.contents(), kind,
                             field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, values.astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
