"""Every colour of the pictures can be seen on a white and on a dark page."""

import pytest

from pipeline.report.palette import GREY, SERIES, contrast


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # the well-known grey just below 4.5


@pytest.mark.parametrize("page", ["#ffffff", "#0d1117"])
@pytest.mark.parametrize("colour", [GREY, *SERIES])
def test_a_colour_has_three_to_one_on_both_pages(colour: str, page: str) -> None:
    assert contrast(colour, page) >= 3
