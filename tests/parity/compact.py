"""Numbers with six digits, JSON with a line for each entry of the upper two levels, and texts as gzip files."""

import gzip
import json


def compact(values):
    """A tensor as nested lists, six significant digits."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(values, list):
        return [compact(value) for value in values]
    value = float(f"{values:.6g}")
    return int(value) if value == int(value) and abs(value) < 1e6 else value


def write(case):
    def inner(value):
        return json.dumps(value, separators=(",", ":"))

    def outer(value):
        if isinstance(value, dict) and any(isinstance(v, (dict, list)) for v in value.values()):
            return "{" + ",\n".join(f"{inner(k)}:{inner(v)}" for k, v in value.items()) + "}"
        return inner(value)

    return "{" + ",\n".join(f"{inner(k)}:{outer(v)}" for k, v in case.items()) + "}\n"


def write_gzip(path, text):
    """The same bytes for the same text: neither a time nor a name is in them."""
    with open(path, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(text.encode())
