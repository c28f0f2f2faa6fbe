"""Routes as people write them: what they mean, and what is wrong with them, with the line."""

import pytest

from lastbeat.model.route import Person, Route
from lastbeat.stores.port import Blob
from lastbeat.watch.record.routes import FILE_LIMIT_BYTES, decode, digest, encode
from lastbeat.watch.record.routes_file import compiled
from support.memory import START

GOOD = b"""\
zone: Europe/Berlin
people:
  alice: {slack: U0123ABCD, also: alice@example.com, team: vision}
  oncall: {slack: "<!subteam^S0123ABCD>", email: oncall@example.com, pagerduty: primary}
routes:
  - name: nights
    when: {severity: critical, hours: 22:00-07:00, days: [fri-sun, tue]}
    to: pagerduty
    mention: [oncall, owner]
    continue: true
  - name: noise
    when: {runs: ["debug-*", tmp], status: [succeeded, Recovered], cause: none, owner: bob, team: nlp, zone: UTC}
    to: nobody
default: {to: [slack, "slack:oncall"], mention: []}
"""


def test_a_file_says_what_it_means() -> None:
    table, faults = compiled(GOOD, "routes.yaml")
    assert (faults, table is not None) == ([], True)
    assert table is not None
    nights, noise, default = table.routes
    assert nights == Route(
        "nights", ("pagerduty",), ("oncall", "owner"), goes_on=True, severities=("critical",), hours=("22:00-07:00",),
        days=("fri", "sat", "sun", "tue"), zone="Europe/Berlin",
    )  # fmt: skip
    assert noise == Route(
        "noise", ("nobody",), owners=("bob",), teams=("nlp",), runs=("debug-*", "tmp"),
        events=("SUCCEEDED", "RECOVERED"), causes=("none",),
    )  # fmt: skip
    assert default == Route("default", ("slack", "slack:oncall"), ())
    assert table.people["alice"] == Person("<@U0123ABCD>", None, None, "vision", ("alice@example.com",))
    assert table.source == digest(GOOD)
    kept = encode(table)
    assert decode(Blob(kept, len(kept), START, "v")) == table


def routes(text: str, default: str = "default: {to: slack}") -> bytes:
    return f"routes:\n- name: a\n{text}\n{default}\n".encode()


FAULTS = [
    pytest.param(b"", "is empty; a routes file has a default: at least", id="nothing"),
    pytest.param(b"routes: []\n", "default is missing; add it", id="no default, so an alert could be lost"),
    pytest.param(b"default: {to: []}", "1", id="a default that goes nowhere"),
    pytest.param(b"default: {to: [all, slack]}", "to: all stands beside other destinations", id="all and another"),
    pytest.param(b"default: {to: https://hooks.slack.com/x}", "is no destination", id="an address: a secret"),
    pytest.param(routes("  when: {stauts: failed}\n  to: x"), ":3: ", id="a misspelt key, with its line"),
    pytest.param(routes("  when: {status: faild}\n  to: x"), "did you mean 'failed'?", id="a misspelt status"),
    pytest.param(routes("  when: {runs: 'a b'}\n  to: x"), "can match no run", id="a glob that fits nothing"),
    pytest.param(routes("  when: {hours: 25:00-01:00}\n  to: x"), "is no time of day", id="hours that are none"),
    pytest.param(routes("  when: {days: mon-foo}\n  to: x"), "is no day", id="a day that is none"),
    pytest.param(routes("  when: {runs: x, zone: Mars/X}\n  to: x"), "no time zone is called", id="an unknown zone"),
    pytest.param(routes("  when: {}\n  to: x"), "has no conditions", id="a route for everything"),
    pytest.param(routes("  when: {runs: x}\n  to: nobody\n  continue: true"), "drops the alert", id="drop and go on"),
    pytest.param(routes("  when: {runs: x}\n  to: x\n  mention: alice"), "nobody under people:", id="nobody's name"),
    pytest.param(routes("  when: {runs: x}\n  to: x\n- name: a\n  when: {runs: y}\n  to: y"), "is taken already",
                 id="a name twice"),
    pytest.param(routes("  when: {runs: x}\n  to: x\n- name: default\n  when: {runs: y}\n  to: y"), "is taken already",
                 id="the default's name"),
    pytest.param(b"people: {owner: {slack: U0123ABCD}}\ndefault: {to: slack}", "stands for the run's owner",
                 id="a person called owner"),
    pytest.param(b"people: {a: {also: x}, b: {also: X}}\ndefault: {to: slack}", "is a name of both",
                 id="one name of two people"),
    pytest.param(b"people: {a: {slack: '@alice'}}\ndefault: {to: slack}", "is no mention", id="no id of Slack's"),
    pytest.param(b"default: {to: &x slack}\nroutes: *x\n", "aliases", id="an alias"),
    pytest.param(b"\xff\xfe", "not UTF-8", id="no text"),
    pytest.param(b"#" * (FILE_LIMIT_BYTES + 1), "is the most", id="a huge file"),
    pytest.param(b"{" * 100, "levels deep", id="deeper than any file needs"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "what"), FAULTS)
def test_a_fault_is_told_and_nothing_of_the_file_holds(body: bytes, what: str) -> None:
    table, faults = compiled(body, "routes.yaml")
    assert table is None
    assert any(what in str(fault) for fault in faults), list(map(str, faults))
