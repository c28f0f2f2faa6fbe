"""The pages of docs/ that are made from the code. ``make pages`` rewrites them; a test holds that they are in step."""

from pathlib import Path

from support import command_pages, condition_table, heartbeat_page, sdk_page, setting_pages, signal_pages

_MAKERS = (command_pages, condition_table, heartbeat_page, sdk_page, setting_pages, signal_pages)


def written() -> dict[Path, str]:
    """Each file → its text as it should be."""
    return {path: text for maker in _MAKERS for path, text in maker.written().items()}


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
