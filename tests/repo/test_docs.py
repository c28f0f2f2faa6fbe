"""Documents against the code: the files, options and settings they name are there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lastbeat import __version__, settings
from lastbeat.jobs.launchers.ray import submission as ray_submission
from lastbeat.jobs.supervision.bounded import JOB_VARIABLES
from lastbeat.model.in_place import RESTARTS_VARIABLE
from lastbeat.views.row_keys import NUMBERS, TEXTS
from support.checkout import ROOMS, ROOT, TOP_FILES, documents
from support.markdown import Document

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
SETTING = re.compile(r"\b(?:LASTBEAT|MONITORING|SLACK|SNS)_[A-Z0-9_]+\b|\bSTALE_MINUTES\b|\bALERT_ON\b")
OURS = re.compile(r"\blastbeat (?:[a-z]|--)|\bcli/monitor\.py\b")
PLAIN_PATH = re.compile(r"\.?[\w.-]+(?:/[\w.-]+)*/?")
# Where a path of a document may begin; the design page speaks of lastbeat's own rooms by their short names.
BASES = (ROOT, ROOT / "core" / "lastbeat", ROOT / "core", ROOT / "cli")

pages = pytest.mark.parametrize("page", documents(), ids=lambda path: str(path.relative_to(ROOT)))


def _is_path(word: str) -> bool:
    if not PLAIN_PATH.fullmatch(word):
        return False
    first = word.split("/", 1)[0]
    inside = {path.name for path in (ROOT / "core" / "lastbeat").iterdir() if path.is_dir()}
    if "/" in word:
        return first in ROOMS or first in inside or word.endswith(".py")
    return word in TOP_FILES or word.endswith((".py", ".md"))


@pages
def test_every_path_that_is_named_exists(page: Path) -> None:
    words = [word for code in Document.read(page).inline_code for word in code.split()]
    bases = (*BASES, page.parent)
    missing = [word for word in words if _is_path(word) and not any((base / word).exists() for base in bases)]
    assert missing == []


@pages
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in Document.read(page).links:
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in Document.read(target).anchors):
            broken.append(link)
    assert broken == []


@pages
def test_every_option_that_is_named_exists(page: Path, options: set[str]) -> None:
    ours = [line for line in Document.read(page).commands() if line.startswith("--") or OURS.search(line)]
    named = {option for line in ours for option in OPTION.findall(line)}
    # Some are handed on to a launcher.
    assert named - options - set(ray_submission.OPTIONS) == set()


@pages
def test_every_setting_that_is_named_exists(page: Path) -> None:
    # Of a channel with a name of its own it is the rest of the name that has to be a setting.
    own = re.compile(r"LASTBEAT_CHANNEL_[A-Z]+_(?:LASTBEAT_)?")
    named = {own.sub("", each) for each in SETTING.findall(Document.read(page).text)}
    known = {*(setting.name for setting in settings.every_setting()), *JOB_VARIABLES, RESTARTS_VARIABLE}
    assert {each for each in named if not {each, f"LASTBEAT_{each}"} & known} - {"LASTBEAT_CHANNEL_"} == set()


MOST_LINES = {"design.md": 300}
"""Lines that a page may have, where that is not 200."""


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_no_page_is_long(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= MOST_LINES.get(page.name, 200)


def test_the_site_and_the_map_of_the_pages_lead_to_each() -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("[a-z]*.md")}
    site = re.findall(r"- ([a-z/-]+\.md)$", (ROOT / ".ci" / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    links = Document.read(ROOT / "docs" / "README.md").links
    assert (sorted(site), sorted(links)) == (sorted(pages), sorted(pages))


def test_one_table_has_every_extra() -> None:
    table = (ROOT / "docs" / "start.md").read_text(encoding="utf-8").partition("## Extras")[2]
    declared = (ROOT / "pyproject.toml").read_text("utf-8").partition("[project.optional-dependencies]")[2]
    extras = re.findall(r"^(\w+) = \[", declared.partition("\n[")[0], re.MULTILINE)
    assert len(extras) > 5
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(extras)


def test_the_changelog_tells_of_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[?{re.escape(__version__)}\b", changelog, re.MULTILINE)


@pytest.fixture(scope="module")
def options() -> set[str]:
    """Every option of every command, by the commands' own help."""
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT / "cli")])}
    probe = (
        "import json, click, lastbeat_cli.main as m\n"
        "group = next(v for v in vars(m).values() if isinstance(v, click.Group))\n"
        "ctx = click.Context(group)\n"
        "all = [group]\n"
        "for c in all:\n"
        "    if isinstance(c, click.Group):\n"
        "        all.extend(c.get_command(ctx, name) for name in c.list_commands(ctx))\n"
        "print(json.dumps([o for c in all for p in c.get_params(ctx) for o in [*p.opts, *p.secondary_opts]]))\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True, text=True, check=True)
    return {option for option in json.loads(done.stdout) if option.startswith("--")}


def test_page_and_terminal_filter_by_the_same_fields_and_docs_name_them() -> None:
    script = (ROOT / "core/lastbeat/views/page/assets/filter.js").read_text(encoding="utf-8")
    fields = script.partition("const TEXTS = {")[2].partition("};")[0]
    assert sorted(re.findall(r"(\w+): \(row\)", fields)) == sorted(TEXTS)
    page = (ROOT / "docs/look.md").read_text(encoding="utf-8")
    assert [name for name in (*TEXTS, *NUMBERS) if not re.search(rf"`{name}`|\b{name}[:<>]", page)] == []
