"""The ledger of groups ↔ JSON: a record like any other, and the groups beside it."""

import json
from dataclasses import fields
from typing import Any

from lastbeat.model.group import Alone, Group, Ledger, Member, State
from lastbeat.model.record import Record
from lastbeat.model.times import format_time
from lastbeat.record import codec
from lastbeat.record.codec import DamagedRecordError
from lastbeat.record.fields import must, text, time, whole
from lastbeat.record.keeper import Form

LEDGER_LIMIT_BYTES = 16 * 1024 * 1024

Json = dict[str, Any]


def encode(record: Record) -> bytes:
    """A ledger as JSON; members are short rows, because there may be thousands."""
    document = json.loads(codec.encode(record))
    if isinstance(record, Ledger):
        document["opened"] = record.opened
        document["groups"] = [_group(group) for group in record.groups]
        document["alone"] = [[row.run_id, row.number, format_time(row.at), row.back] for row in record.alone]
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def decode(body: bytes) -> Ledger:
    """The ledger that :func:`encode` wrote. Raises :class:`DamagedRecordError` for anything else."""
    record = codec.decode(body)
    document = json.loads(body)
    try:
        return Ledger(
            **{each.name: getattr(record, each.name) for each in fields(Record)},
            opened=whole(document["opened"]),
            groups=tuple(_read_group(entry) for entry in document["groups"]),
            alone=tuple(
                Alone(text(run_id), whole(number), must(at), bool(back))
                for run_id, number, at, back in document["alone"]
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DamagedRecordError(f"the groups in it cannot be read ({type(error).__name__}: {error})") from error


LEDGER_FORM = Form(encode, decode, LEDGER_LIMIT_BYTES)


def _group(group: Group) -> Json:
    return {
        "number": group.number,
        "opened_at": format_time(group.opened_at),
        "grew_at": format_time(group.grew_at),
        "told_at": format_time(group.told_at),
        "closed_at": format_time(group.closed_at),
        "facts": {name: dict(values) for name, values in group.facts.items()},
        "having": dict(group.having),
        "members": {run_id: _member(member) for run_id, member in group.members.items()},
    }


def _member(member: Member) -> list[object]:
    return [member.state.value, list(member.waiting), list(member.back), list(member.told.items())]


def _read_group(entry: Json) -> Group:
    return Group(
        number=whole(entry["number"]),
        opened_at=must(entry["opened_at"]),
        grew_at=must(entry["grew_at"]),
        told_at=time(entry["told_at"]),
        closed_at=time(entry["closed_at"]),
        facts={str(name): _counts(values) for name, values in entry["facts"].items()},
        having=_counts(entry["having"]),
        members={str(run_id): _read_member(row) for run_id, row in entry["members"].items()},
    )


def _read_member(row: list[Any]) -> Member:
    state, waiting, back, told = row
    return Member(
        State(state),
        tuple(map(whole, waiting)),
        tuple(map(whole, back)),
        {whole(number): whole(notice) for number, notice in told},
    )


def _counts(values: Json) -> dict[str, int]:
    return {str(value): whole(count) for value, count in values.items()}
