"""Words for a person. Pure; torch-free."""


def counted(number: int, noun: str) -> str:
    """`1 node`, `2,000 nodes`, `3 classes`."""
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"


def printable(text: str) -> str:
    """`text` on one line and without what would command a terminal: a name or a log's last words may hold anything."""
    return "".join(one if one.isprintable() else " " for one in text)
