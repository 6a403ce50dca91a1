"""Colours that can be read on white and on a dark page alike, for pictures without a background of their own.

Each has a contrast of at least 3 : 1 (WCAG 2.1, 1.4.11) against #ffffff and #0d1117. Torch-free.
"""

GREY = "#7d8590"
"""Text, axes, outlines."""

SERIES = ("#2f81d6", "#d4670b", "#2b9a57", "#a45fd0", "#d0457c", "#8a7a2c")
"""Runs of a plot, chunks of a gradient: told apart by hue, and named in words beside it."""


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours `#rrggbb`, 1 to 21, as WCAG 2.1 defines it."""
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, 0 to 1, as WCAG 2.1 defines it."""
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
