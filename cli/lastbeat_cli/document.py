"""A command's answer: JSON for programs, one object on one line, or lines of text for people."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from lastbeat.model.check_result import CheckResult
from lastbeat.model.document import clean, masked
from lastbeat.model.text import one_line
from lastbeat.model.version import __version__
from lastbeat_cli import exits, logs


def tell(document: Mapping[str, object], lines: Iterable[str], *, as_json: bool) -> None:
    """Print ``document`` as JSON, or else ``lines``. Secrets are masked in both, before anything is escaped."""
    if as_json:
        print(dump(masked(enveloped(document), logs.redact)), flush=True)
    else:
        for line in lines:
            print(logs.shown(line), flush=True)


def enveloped(document: Mapping[str, object], errors: Sequence[tuple[str, str]] = ()) -> dict[str, object]:
    """An answer whose ``data`` is ``document``, as ``lastbeat report schema answer`` describes it. A document with a
    schema of its own is returned as it is.

    Earlier versions had no ``data``, so the keys of ``document`` also stand beside it. ``errors`` are messages, each
    with its advice.
    """
    if "schema" in document:
        return dict(document)
    told = [{"message": message, "advice": advice or None} for message, advice in errors]
    return {"schema": 1, "version": __version__, **document, "data": dict(document) or None, "errors": told}


def tell_checks(checks: Iterable[CheckResult], *, as_json: bool) -> int:
    """Print each check as it is made, or all of them as JSON. Returns the exit status."""
    made: list[CheckResult] = []
    for check in checks:
        made.append(check)
        if not as_json:
            remedy = f" → {check.remedy}" if check.remedy else ""
            print(f"{check.word:<4}  {one_line(logs.redact(f'{check.name}: {check.detail}{remedy}'))}", flush=True)
    if as_json:
        tell({"checks": [asdict(check) for check in made]}, (), as_json=True)
    words = {check.word for check in made}
    return exits.CRITICAL if "fail" in words else exits.WARNING if "warn" in words else exits.OK


def dump(value: object) -> str:
    """``value`` as JSON on one line, in ASCII, so that it is valid for any text."""
    return json.dumps(clean(value), allow_nan=False)
