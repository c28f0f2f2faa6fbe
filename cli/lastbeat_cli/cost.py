"""``cost``: the measured cost of watching, next to the cost of heartbeats and of polling."""

from collections.abc import Iterator

import click

from lastbeat.fleet import cost
from lastbeat.fleet.cost import Bill, MonthEstimate
from lastbeat.fleet.mark import PassMark, read_mark
from lastbeat.model import runid
from lastbeat.model.times import format_time
from lastbeat.settings import Settings, opening, table
from lastbeat.stores import registry
from lastbeat.stores.kind import S3_LIST, Charge, Prices
from lastbeat.stores.port import StoreError
from lastbeat_cli import exits, options, values
from lastbeat_cli.document import tell

FEW_PASSES = 15
"""Fewer passes give a poor estimate: the first one reads the whole fleet, and some work occurs once in ten minutes."""
EPILOG = """\
Exit status:
  0  the costs were printed
  3  no pass was made yet, or its mark could not be read; also wrong settings or arguments
"""


@click.command("cost", cls=options.Grouped, epilog=EPILOG)
@options.place
@options.form
def command(*, as_json: bool, **given: str | None) -> int:
    """Show requests and dollars of a month of watching, measured over the last passes (usually an hour).

    For comparison, also shows the cost of a run's own heartbeats, and of a script that polls each run once a minute.
    """
    settings = values.settings(given, [])
    where = opening.root_url(settings)
    mark = read_mark(opening.store(settings))
    measured = cost.watching(mark) if mark is not None else None
    if mark is None or measured is None:
        raise StoreError(
            f"{where}: no pass over this fleet was made yet ({runid.SWEEP_MARK} is missing, or has none)",
            "Make one with 'lastbeat sweep --once', better many: what watching costs is measured.",
        )
    tell(_document(settings, mark, measured), _lines(settings, mark, measured), as_json=as_json)
    return exits.OK


def _lines(settings: Settings, mark: PassMark, measured: MonthEstimate) -> Iterator[str]:
    first, last = format_time(mark.recent[0].at), format_time(mark.recent[-1].at)
    many = f"{measured.passes} passes from {first} to {last}" if measured.passes > 1 else f"one pass, at {last}"
    yield f"Fleet {opening.root_url(settings)}: {many}; one each {mark.interval_s:g} s"
    yield f"On average {_average(measured.active)} active of {_average(measured.runs)} runs"
    yield ""
    rows = list(_rows(settings, measured))
    width = max(len(what) for what, _ in rows)
    yield f"{'a month of':<{width}}  {'requests':>13}  {'dollars':>10}"
    for what, bill in rows:
        yield f"{what:<{width}}  {bill.count:>13,.0f}  {_dollars(_cost(settings, bill)):>10}"
    yield ""
    if measured.run is None:
        yield "No run was active in these passes, so nothing can be said of one."
    yield from _notes(settings, measured)


def _rows(settings: Settings, measured: MonthEstimate) -> Iterator[tuple[str, Bill]]:
    beats = settings[table.BEAT_SECONDS]
    if measured.fleet is not None:
        yield "watching the fleet", measured.fleet
    if measured.run is not None:
        yield "watching one active run", measured.run
    yield f"beating: both heartbeats each {beats.seconds:g} s", cost.beating(beats.seconds)
    yield "  and the log with each beat", cost.writing(beats.seconds)
    if beats.ranks > 0:
        yield f"  and each rank of many, each {beats.ranks:g} s", cost.writing(beats.ranks)
    yield "polling one run: 2 HEADs, 2 GETs a minute", cost.polling()


def _notes(settings: Settings, measured: MonthEstimate) -> Iterator[str]:
    if measured.fleet is None:
        yield "The fleet is watched in parts, and these passes are over some of them: the averages are a part's."
    kind = registry.of(settings.root)
    where, prices = _paid(settings), kind.TRAITS.prices
    if where == "directory":
        yield "A directory costs nothing; the dollars are what the same requests would cost in S3."
    elif where == "endpoint":
        name = kind.endpoint(settings.values, settings.environ)
        yield f"The dollars are those of {kind.NAME}; the owner of your endpoint ({name}) may charge differently."
    elif prices.charge is Charge.UNKNOWN:
        yield f"What {kind.NAME} charges differs too much from account to account to say dollars here."
    yield "Beating: as lastbeat's SDK does while steps advance between any two beats."
    if prices.charge is Charge.UNKNOWN:
        yield "A month has 30 days."
    else:
        listed = prices if prices.charge is Charge.LISTED else S3_LIST
        yield f"Prices: {listed.told}; {_listed(listed)}; a month has 30 days."
    if measured.passes < FEW_PASSES:
        yield "Few passes were measured, and the first over a fleet reads all of it: ask again in an hour."


def _paid(settings: Settings) -> str:
    kind = registry.of(settings.root)
    if kind.TRAITS.prices.free:
        return "directory"
    return "endpoint" if kind.endpoint(settings.values, settings.environ) else settings.root.scheme


def _cost(settings: Settings, bill: Bill) -> float | None:
    """The cost in dollars, or None if prices are unknown."""
    prices = registry.of(settings.root).TRAITS.prices
    return None if prices.charge is Charge.UNKNOWN else prices.dollars(bill.requests)


def _listed(prices: Prices) -> str:
    each = {kind: 1e6 * prices.per_request[kind] for kind in ("LIST", "GET")}
    return f"LIST and PUT ${each['LIST']:g}, GET and HEAD ${each['GET']:.2f} a million"


def _average(count: float) -> str:
    return f"{count:,.0f}" if count >= 10 or count == int(count) else f"{count:.1f}"


def _dollars(amount: float | None) -> str:
    """``amount`` with two significant digits, however small it is."""
    if amount is None:
        return "unknown"
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.2g}" if amount >= 0.0001 else "<$0.0001"


def _document(settings: Settings, mark: PassMark, measured: MonthEstimate) -> dict[str, object]:
    return {
        "root": opening.root_url(settings),
        "store": _paid(settings),
        "passes": measured.passes,
        "first_pass_at": format_time(mark.recent[0].at),
        "last_pass_at": format_time(mark.recent[-1].at),
        "interval_s": mark.interval_s,
        "active": round(measured.active, 3),
        "runs": round(measured.runs, 3),
        "month": {
            "watching_fleet": _bill(settings, measured.fleet),
            "watching_run": _bill(settings, measured.run),
            "beating_run": _bill(settings, cost.beating(settings[table.BEAT_SECONDS].seconds)),
            "polling_run": _bill(settings, cost.polling()),
        },
    }


def _bill(settings: Settings, bill: Bill | None) -> dict[str, object] | None:
    if bill is None:
        return None
    requests = {kind: round(count, 1) for kind, count in bill.requests.items()}
    amount = _cost(settings, bill)
    return {"requests": requests, "dollars": None if amount is None else round(amount, 6)}
