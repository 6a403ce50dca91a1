"""Bytes that were changed as disks, editors and ill-meaning people change them."""

from hypothesis import strategies as st

SPLICED = (
    b"-1",
    b"9" * 40,
    b"1e999",
    b"null",
    b"\t",
    b"\n",
    b"\0",
    b"../../etc/passwd",
    b"[" * 3000,
    b"{}",
    b"\xff\xfe",
)


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """`content` after one to four changes: bits flipped, cut off, a piece left out, doubled, or something put in."""
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(content) - 1)))
        length = draw(st.integers(1, 64))
        what = draw(st.sampled_from(["flip", "cut", "leave out", "double", "put in"]))
        before, piece, after = content[:place], content[place : place + length], content[place + length :]
        if what == "flip" and piece:
            content = before + bytes([piece[0] ^ (1 << draw(st.integers(0, 7)))]) + piece[1:] + after
        elif what == "cut":
            content = before
        elif what == "leave out":
            content = before + after
        elif what == "double":
            content = before + piece + piece + after
        else:
            content = before + draw(st.sampled_from(SPLICED)) + piece + after
    return content
