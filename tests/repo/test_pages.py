"""The pages that are made from the code are in step with it."""

from lastbeat_cli.commands import COMMANDS
from support import command_pages, pages


def test_every_page_says_what_the_code_says() -> None:
    made = pages.written()
    stale = [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "rewrite them: make pages"


def test_every_command_of_the_help_is_on_one_page() -> None:
    shown = [word for _, words in command_pages.PAGES.values() for word in words]
    assert sorted(shown) == sorted(COMMANDS)
