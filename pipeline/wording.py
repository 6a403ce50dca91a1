"""Words for a person. Pure; torch-free."""


def counted(number: int, noun: str) -> str:
    """`1 node`, `2,000 nodes`, `3 classes`."""
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"
