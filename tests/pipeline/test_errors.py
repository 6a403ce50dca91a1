"""An error is one line that a terminal shows and does not obey, whatever a value in it holds."""

from pipeline.errors import UserError


def test_what_would_command_a_terminal_is_not_in_it() -> None:
    text = "sample \x1b]0;title\x07 of\nshard \u202e\x9b2J: ä 日本"
    assert str(UserError(text)) == "sample  ]0;title  of shard   2J: ä 日本"


def test_a_value_that_is_a_whole_file_does_not_fill_the_screen() -> None:
    assert len(str(UserError("x" * 10**6))) == 1001
