"""Settings → what writes the page of a fleet."""

from lastbeat.settings import Settings, opening, table
from lastbeat.stores.counting import Tally
from lastbeat.stores.port import Store
from lastbeat.views.fleet_losses import LossReader
from lastbeat.views.one_run import run_watch
from lastbeat.views.page.writing import PageOfFleet
from lastbeat.views.watching import fleet_watch
from lastbeat.watch.record.limits import LISTED_FOR_S, FleetLimits


def configured_page(settings: Settings, root: Store, tally: Tally) -> PageOfFleet:
    """What writes the page of the fleet in ``root``. ``tally`` counts its requests."""
    limits = FleetLimits(root, LISTED_FOR_S)
    return PageOfFleet(
        root,
        fleet_watch(settings, at=root, limits=limits),
        lambda run_id: run_watch(settings, run_id, at=root, limits=limits),
        60 * settings[table.PAGE_MINUTES],
        stale_s=settings.policy.stale_s,
        tally=tally,
        losses=LossReader(root, opening.root_url(settings), settings.redactor),
    )
