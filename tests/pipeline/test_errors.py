"""An error is one line that a terminal shows and does not obey, whatever a value in it holds."""

from pipeline.errors import UserError


def test_what_would_command_a_terminal_is_not_in_it() -> None:
    assert (
        str(UserError("sample \x1b]0;title\x07 of\nshard \u202e\x9b2J: ä 日本"))
        == "sample  ]0;title  of shard   2J: ä 日本"
    )
