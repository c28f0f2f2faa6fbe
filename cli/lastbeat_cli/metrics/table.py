"""Every metric, one row each. Tests compare docs/metrics.md, the Grafana dashboard and the alert rules with it."""

from dataclasses import dataclass
from typing import Final

from lastbeat.model.figures import FIGURES

FLEET: Final = "fleet"
"""Label of every metric: the fleet root. One machine may watch several fleets, and only this label separates them."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    """Labels besides :data:`FLEET`."""

    @property
    def counts(self) -> bool:
        """Whether it is a counter; else it is a gauge."""
        return self.name.endswith("_total")


BUILD_INFO: Final = Metric("lastbeat_build_info", "Always 1; the version is a label.", ("version",))
UP: Final = Metric("lastbeat_up", "1 if the last look could see the fleet, 0 if it could not.")
SEEN: Final = Metric(
    "lastbeat_fleet_seen_timestamp_seconds",
    "When the fleet was last seen, by the store's clock. While lastbeat_up is 0 all else stands as it was then.",
)
WATCHED: Final = Metric(
    "lastbeat_watched", "1 if passes over the fleet leave their marks in time, 0 if they stopped or never came."
)
RUNS: Final = Metric("lastbeat_runs", "Runs by status, of those that run or ended within a day.", ("status",))
OLDER: Final = Metric("lastbeat_runs_older", "Runs that ended longer ago than that.")
LEFT_OUT: Final = Metric(
    "lastbeat_runs_left_out", "Runs without metrics of their own: there are too many, or they were not read yet."
)
PENDING: Final = Metric("lastbeat_alert_deliveries_pending", "Alerts times channels that still have to be sent.")
DELIVERIES: Final = Metric(
    "lastbeat_alert_deliveries_total", "Attempts to send an alert on a channel, by result: sent or failed.", ("result",)
)
TRANSITIONS: Final = Metric(
    "lastbeat_transitions_total", "Changes of a run's status, by the status after it.", ("status",)
)
PASSES: Final = Metric(
    "lastbeat_passes_total", "Passes over the fleet, by result: complete, partial (out of time) or blind.", ("result",)
)
INTERVAL: Final = Metric("lastbeat_pass_interval_seconds", "Time between the beginnings of two passes.")
DURATION: Final = Metric("lastbeat_last_pass_duration_seconds", "How long the last pass took.")
OLDEST: Final = Metric(
    "lastbeat_oldest_observation_age_seconds", "Age of the oldest look that a run's known status rests on."
)
REQUESTS: Final = Metric(
    "lastbeat_store_requests_total", "Requests to the store: LIST, GET, PUT or DELETE.", ("operation",)
)
COST: Final = Metric("lastbeat_store_cost_dollars_total", "What these requests cost by the list prices of the store.")
STATUS: Final = Metric(
    "lastbeat_run_status", "Always 1; the run's status, and the cause where it is known.", ("run_id", "status", "cause")
)
CONDITION: Final = Metric(
    "lastbeat_run_condition", "Always 1; one for each condition that the run has.", ("run_id", "condition")
)
SINCE: Final = Metric(
    "lastbeat_run_status_since_timestamp_seconds", "Since when the run has had its status.", ("run_id",)
)
ATTEMPT: Final = Metric("lastbeat_run_attempt", "Number of the run's attempt.", ("run_id",))
BEAT_AGE: Final = Metric(
    "lastbeat_run_last_beat_age_seconds",
    "How old the last heartbeat of a RUNNING or TIMED_OUT run was, by the store's clock, when it was last looked at.",
    ("run_id",),
)
FIGURE: Final = {each.name: Metric(f"lastbeat_run_{each.name}", each.help, ("run_id",)) for each in FIGURES}
"""Name of a figure → its metric."""
STEP_AT: Final = Metric(
    "lastbeat_run_step_timestamp_seconds",
    "When the document was stored that step and loss were last read from, by the store's clock.",
    ("run_id",),
)
RUN_PENDING: Final = Metric(
    "lastbeat_run_alert_deliveries_pending",
    "Of the run: alerts times channels that still have to be sent.",
    ("run_id",),
)

METRICS: Final = (
    BUILD_INFO, UP, SEEN, WATCHED, RUNS, OLDER, LEFT_OUT, PENDING, DELIVERIES, TRANSITIONS, PASSES, INTERVAL, DURATION,
    OLDEST, REQUESTS, COST, STATUS, CONDITION, SINCE, ATTEMPT, BEAT_AGE, *FIGURE.values(), STEP_AT, RUN_PENDING,
)  # fmt: skip
