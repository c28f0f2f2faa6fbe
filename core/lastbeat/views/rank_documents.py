"""Ranks that are missing or stuck, as JSON can hold them. Pure."""

from lastbeat.model.as_json import Json, picked
from lastbeat.model.cause import MissingRanks
from lastbeat.model.stuck_collective import StuckCollective
from lastbeat.model.times import format_time


def missing_document(missing: MissingRanks) -> Json:
    """The ranks without a log, or whose log ends before the others'."""
    ranks = [
        {
            **picked(each, "rank host step"),
            "log": each.log or None,
            "last_line_at": format_time(each.time),
            "stack": each.stack or None,
        }
        for each in missing.ranks
    ]
    return {"ranks": ranks, **picked(missing, "count world_size"), "text": missing.sentence}


def stuck_document(stuck: StuckCollective) -> Json:
    """What each rank does in the collective in which ranks wait."""
    ranks = [
        {
            **picked(row, "ranks count does host"),
            "call": row.call or None,
            "since": format_time(row.since),
            "frame": row.frame or None,
        }
        for row in stuck.rows
    ]
    head = {**picked(stuck, "call group size root circular"), "since": format_time(stuck.since)}
    return {**head, "ranks": ranks, "text": stuck.sentence}
