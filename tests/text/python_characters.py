"""Characters for which Python's re and this library differ."""
import unicodedata


def differs(character):
    """Where Unicode's words and spaces are not those of re, or re's Unicode is another."""
    kind = unicodedata.category(character)
    return kind[0] == "M" or kind in ("Pc", "No", "Nl", "So", "Cf", "Cn") or "\x1c" <= character <= "\x1f"
