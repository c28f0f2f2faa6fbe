"""Which route takes an alert."""

from datetime import datetime, timezone
from typing import Any

import pytest

from lastbeat.model.alert import MentionedPerson, Message
from lastbeat.model.route import InvalidRouteError, Person, Route, RouteTable
from lastbeat.model.status import Event, Status
from lastbeat.watch.decide.routes import check, choose, choose_together, window

MONDAY = datetime(2026, 1, 5, 12, 0, tzinfo=timezone.utc)
PEOPLE = {
    "alice": Person(slack="<@U0123ABCD>", team="vision", also=("alice@example.com", "asmith")),
    "oncall": Person(slack="<!subteam^S0123ABCD>", email="oncall@example.com"),
}


def alert(event: Event = Event.FAILED, at: datetime = MONDAY, **more: Any) -> Message:
    return Message(**{"run_id": "llm-7b", "event": event, "status": Status.FAILED, "reason": "boom", "at": at, **more})


def table(*routes: Route, default: tuple[str, ...] = ("slack",)) -> RouteTable:
    return RouteTable((*routes, Route("default", default)), PEOPLE)


FITS = [
    pytest.param({"runs": ("llm-*", "x")}, {}, True, id="one of the globs fits the run"),
    pytest.param({"runs": ("LLM-*",)}, {}, False, id="runs differ in capitals"),
    pytest.param({"owners": ("alice",)}, {"owner": "Alice"}, True, id="owners do not"),
    pytest.param({"owners": ("alice",)}, {"owner": "asmith"}, True, id="an owner by another of their names"),
    pytest.param({"owners": ("asmith",)}, {"owner": "asmith"}, True, id="or by the one that training says"),
    pytest.param({"owners": ("*@example.com",)}, {"owner": "bob@example.com"}, True, id="owners by a glob"),
    pytest.param({"owners": ("*",)}, {}, False, id="who says no owner has none"),
    pytest.param({"teams": ("vision",)}, {"team": "Vision"}, True, id="the team that training says"),
    pytest.param({"teams": ("vision",)}, {"owner": "alice@example.com"}, True, id="else its owner's"),
    pytest.param({"teams": ("vision",)}, {"owner": "alice", "team": "nlp"}, False, id="what training says outranks it"),
    pytest.param({"events": ("FAILED",)}, {}, True, id="the status"),
    pytest.param({"events": ("TIMED_OUT",)}, {}, False, id="another status"),
    pytest.param({"severities": ("critical",)}, {}, True, id="the severity"),
    pytest.param({"severities": ("info",)}, {"event": Event.SUCCEEDED}, True, id="of a success"),
    pytest.param({"severities": ("warning",)}, {"event": Event.SUCCEEDED, "conditions": {"loss_nan": "x"}}, True,
                 id="of a success with a NaN"),
    pytest.param({"causes": ("cuda_*",)}, {"cause": "cuda_oom"}, True, id="the cause"),
    pytest.param({"causes": ("none",)}, {}, True, id="no known cause is none"),
    pytest.param({"runs": ("llm-*",), "events": ("TIMED_OUT",)}, {}, False, id="each condition has to hold"),
]  # fmt: skip


@pytest.mark.parametrize(("conditions", "said", "fits"), FITS)
def test_conditions(conditions: dict[str, Any], said: dict[str, Any], fits: bool) -> None:
    choice = choose(table(Route("one", ("oncall",), **conditions)), alert(**said))
    assert choice.to == (("oncall",) if fits else ("slack",))


NIGHT, WEEK = {"hours": ("22:00-07:00",)}, ("mon", "tue", "wed", "thu", "fri")
HOURS = [
    pytest.param(NIGHT, "2026-01-05T22:00+00:00", True, id="the first minute is in"),
    pytest.param(NIGHT, "2026-01-06T06:59+00:00", True, id="so is the last before the end, over midnight"),
    pytest.param(NIGHT, "2026-01-06T07:00+00:00", False, id="the end is not"),
    pytest.param({**NIGHT, "days": WEEK}, "2026-01-10T03:00+00:00", True, id="the night of Friday ends on Saturday"),
    pytest.param({**NIGHT, "days": WEEK}, "2026-01-05T03:00+00:00", False, id="that of Sunday ends on Monday"),
    pytest.param({**NIGHT, "days": WEEK}, "2026-01-10T23:00+00:00", False, id="Saturday's does not count"),
    pytest.param({"days": ("sat", "sun")}, "2026-01-11T00:00+00:00", True, id="days without hours"),
    pytest.param({"hours": ("09:00-24:00",)}, "2026-01-05T23:59+00:00", True, id="until midnight"),
    pytest.param({"hours": ("06:00-08:00", "18:00-20:00")}, "2026-01-05T19:00+00:00", True, id="one of two"),
    pytest.param({"hours": ("09:00-17:00",), "zone": "Asia/Tokyo"}, "2026-01-05T00:30+00:00", True, id="in its zone"),
    pytest.param({"days": ("tue",), "zone": "Asia/Tokyo"}, "2026-01-05T16:00+00:00", True, id="so are its days"),
    pytest.param({"hours": ("02:00-03:00",), "zone": "Europe/Berlin"}, "2026-07-05T00:30+00:00", True,
                 id="in summer by summer time"),
]  # fmt: skip


@pytest.mark.parametrize(("conditions", "at", "fits"), HOURS)
def test_hours(conditions: dict[str, Any], at: str, fits: bool) -> None:
    when = datetime.fromisoformat(at)
    assert (choose(table(Route("one", ("oncall",), **conditions)), alert(at=when)).to == ("oncall",)) is fits


def test_the_first_route_that_fits_takes_it() -> None:
    routes = table(Route("a", ("one",), runs=("llm-*",)), Route("b", ("two",), runs=("*",)))
    choice = choose(routes, alert())
    assert (choice.by, choice.to) == (("a",), ("one",))


def test_with_continue_the_next_ones_have_it_too_the_default_among_them() -> None:
    routes = table(Route("a", ("one",), goes_on=True, runs=("llm-*",)), Route("b", ("two", "one"), goes_on=True,
                   runs=("*",)))  # fmt: skip
    choice = choose(routes, alert())
    assert (choice.by, choice.to) == (("a", "b", "default"), ("one", "two", "slack"))


def test_a_route_may_drop_it_and_says_so() -> None:
    choice = choose(table(Route("noise", ("nobody",), runs=("llm-*",))), alert(owner="alice"))
    assert (choice.by, choice.to, choice.mentions) == (("noise",), (), ())


ALICE = MentionedPerson("alice", "<@U0123ABCD>")
ONCALL = MentionedPerson("oncall", "<!subteam^S0123ABCD>", "oncall@example.com")


@pytest.mark.parametrize(
    ("owner", "mention", "mentions"),
    [
        pytest.param("alice@example.com", ("owner",), (ALICE,), id="the owner whom people know"),
        pytest.param("mallory", ("owner",), (), id="nobody knows them"),
        pytest.param("<!channel>", ("owner",), (), id="an owner that would ring every bell rings none"),
        pytest.param(None, ("owner", "oncall"), (ONCALL,), id="a group, whoever owns it"),
        pytest.param("asmith", ("oncall", "owner", "alice"), (ONCALL, ALICE), id="each once"),
        pytest.param("alice", (), (), id="nobody, if the route says so"),
    ],
)
def test_mentions(owner: str | None, mention: tuple[str, ...], mentions: tuple[MentionedPerson, ...]) -> None:
    assert choose(table(Route("a", ("one",), mention, runs=("*",))), alert(owner=owner)).mentions == mentions


def test_an_alert_about_many_goes_wherever_the_alert_of_one_of_them_would() -> None:
    routes = table(Route("vision", ("v",), teams=("vision",)), Route("noise", ("nobody",), runs=("debug-*",)))
    both = [alert(owner="alice"), alert(run_id="debug-1"), alert(owner="bob")]
    choice = choose_together(routes, both)
    assert (choice.to, choice.by, choice.mentions) == (("v", "slack"), ("vision", "noise", "default"), (ALICE,))
    assert choose_together(routes, both[1:2]).to == ()


@pytest.mark.parametrize("hours", ["", "22", "22:00", "25:00-01:00", "22:00-22:00", "9:00-17:00", "00:00-24:01", "x"])
def test_no_hours(hours: str) -> None:
    with pytest.raises(InvalidRouteError):
        window(hours)


NOT_FOLLOWED = [
    pytest.param(RouteTable(()), id="no routes"),
    pytest.param(RouteTable((Route("a", ("slack",), runs=("x",)),)), id="a last route that does not take everything"),
    pytest.param(RouteTable((Route("a", ("slack",), goes_on=True),)), id="a last route that goes on"),
    pytest.param(table(Route("a", ("slack",), zone="Mars/Olympus", hours=("01:00-02:00",))), id="an unknown zone"),
    pytest.param(table(Route("a", ("slack",), hours=("1-2",))), id="hours that are none"),
    pytest.param(table(Route("a", ("slack",), unknown={"moon": "full"})), id="a condition that a newer version added"),
]


@pytest.mark.parametrize("wrong", NOT_FOLLOWED)
def test_what_this_version_does_not_understand_it_does_not_follow(wrong: RouteTable) -> None:
    with pytest.raises(InvalidRouteError):
        check(wrong)
