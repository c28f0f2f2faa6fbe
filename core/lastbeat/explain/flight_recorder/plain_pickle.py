"""Reads pickles of plain values. Nothing in a pickle is run: no opcode here can name, call or build a class.

A dump has a fixed shape, a list of many entries, so each entry is handed out as soon as it is complete and then let go.
Memory depends on the largest entry, not on their number.
"""

import pickle
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

MOST_BYTES: Final = 1 << 30
"""Most bytes of a pickle."""
_CHUNK_BYTES: Final = 1 << 16
_MOST_TEXT_BYTES: Final = 1 << 20
"""Most bytes of a single text."""
_MOST_TEXTS_BYTES: Final = 1 << 27
"""Most bytes of all different texts together."""
_MOST_STACK: Final = 1_500_000
"""Most values that wait for their container: torch's pickler stacks all entries before it makes their list."""
_MOST_MEMO: Final = 1 << 24
"""Most values that a pickle may refer to again."""
_MOST_MARKS: Final = 100
"""Deepest nesting of containers under construction."""
_MOST_WEIGHT: Final = 300_000
"""Most containers and items between two entries."""
_KEPT_WEIGHT: Final = 100_000
"""Most containers and items of past entries to which later ones may refer. Beyond, only stack frames are kept."""
_MOST_NUMBER_BYTES: Final = 16
_LARGEST_KEY: Final = 1 << 60

Read = Callable[[int], bytes]
"""Returns the next bytes, at most as many as asked for; none at the end."""


class RefusedDumpError(Exception):
    """The bytes are no dump, or one beyond the limits. The message says what and where."""


class PlainPickle:
    """Reads one pickle of texts, numbers, booleans, None, lists, tuples and dictionaries.

    ``take`` gets each dictionary that is complete and returns whether it was an entry. ``expired`` says that the time
    is up.
    """

    def __init__(self, read: Read, take: Callable[[dict[Any, Any]], bool], expired: Callable[[], bool]) -> None:
        self._read, self._take, self._expired = read, take, expired
        self._data, self._before = b"", 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: list[Any] = []
        self._texts: dict[bytes, str] = {}
        self._text_bytes = 0
        self._weight = self._kept = self._entry_memo = 0

    def load(self) -> Any:
        """The value of the pickle, with None in place of each entry. Raises :class:`RefusedDumpError`."""
        at = [0]
        try:
            return self._run(at)
        except (IndexError, TypeError, ValueError, OverflowError, struct.error, MemoryError):
            cut = at[0] + 1 >= len(self._data)
            raise RefusedDumpError(f"{'cut off' if cut else 'damaged'} at byte {self._before + at[0]:,}") from None

    def salvaged(self) -> dict[Any, Any]:
        """The outermost dictionary as far as it was read."""
        if not self._stack or type(self._stack[0]) is not dict:
            return {}
        found = dict(self._stack[0])
        for key, value in zip(self._stack[1::2], self._stack[2::2], strict=False):
            if type(key) is not str:
                break
            found.setdefault(key, value)
        return found

    def _run(self, place: list[int]) -> Any:  # noqa: PLR0912, PLR0915 - one branch an opcode, the usual ones here
        stack, marks, memo = self._stack, self._marks, self._memo
        push, from_bytes, at = stack.append, int.from_bytes, 0
        data = self._more(0)
        safe = len(data) - _MOST_HEAD
        while True:
            if at > safe:
                data, at = self._more(at), 0
                place[0] = 0
                safe = len(data) - _MOST_HEAD
            op = data[at]
            at += 1
            if op == _BINGET:
                push(memo[data[at]])
                at += 1
            elif op == _MARK:
                marks.append(len(stack))
            elif op == _EMPTY_LIST:
                push([])
                self._weight += 1
            elif op == _APPENDS:
                mark = marks.pop()
                items = stack[mark:]
                del stack[mark:]
                # Entries weigh nothing any more.
                self._weight += len(items) - items.count(None)
                _exactly(stack[-1], list).extend(items)
            elif op == _BININT1:
                push(data[at])
                at += 1
            elif op in _CONSTANTS:
                push(_CONSTANTS[op])
            elif op in _NUMBERS:
                size, signed = _NUMBERS[op]
                push(from_bytes(data[at : at + size], "little", signed=signed))
                at += size
            elif op == _LONG_BINGET:
                push(memo[from_bytes(data[at : at + 4], "little")])
                at += 4
            elif op == _SETITEMS:
                self._set_items(self._marked())
            elif op == _BINPUT:
                self._put(data[at])
                at += 1
            elif op == _LONG_BINPUT:
                self._put(from_bytes(data[at : at + 4], "little"))
                at += 4
            elif op == _MEMOIZE:
                self._put(len(memo))
            elif op in _TEXT_SIZES:
                size = _TEXT_SIZES[op]
                count = from_bytes(data[at : at + size], "little")
                at += size
                if count > _MOST_TEXT_BYTES:
                    raise RefusedDumpError(f"a text of {count:,} bytes at byte {self._before + at:,}")
                while at + count > len(data):
                    data, at = self._more(at, count), 0
                    place[0] = 0
                    safe = len(data) - _MOST_HEAD
                push(self._text(data[at : at + count], op))
                at += count
            elif op == _STOP:
                return stack[-1]
            elif op in _RARE:
                place[0] = at
                at = _RARE[op](self, data, at)
            else:
                raise RefusedDumpError(f"opcode {bytes([op])!r} at byte {self._before + at - 1:,}: no plain value")
            place[0] = at

    def _more(self, at: int, count: int = 0) -> bytes:
        """The bytes from ``at`` on, with more of them behind. Raises :class:`RefusedDumpError` beyond a limit."""
        rest = self._data[at:]
        self._before += at
        if self._expired():
            raise RefusedDumpError(f"there was no time to read beyond byte {self._before:,}")
        for what, size, most in (
            ("bytes", self._before, MOST_BYTES),
            ("values that wait", len(self._stack), _MOST_STACK),
            ("values to refer to", len(self._memo), _MOST_MEMO),
            ("levels", len(self._marks), _MOST_MARKS),
            ("items in an entry", self._weight, _MOST_WEIGHT),
            ("bytes of text", self._text_bytes, _MOST_TEXTS_BYTES),
        ):
            if size > most:
                raise RefusedDumpError(f"more than {most:,} {what}")
        chunk = self._read(max(_CHUNK_BYTES, count))
        if not chunk and (len(rest) < count or not rest):
            raise RefusedDumpError(f"cut off at byte {self._before + len(rest):,}")
        self._data = rest + chunk
        return self._data

    def _text(self, raw: bytes, op: int) -> str | bytes:
        if op in _BYTES:
            self._text_bytes += len(raw)
            return raw
        text = self._texts.get(raw)
        if text is None:
            self._text_bytes += len(raw) + 64
            text = self._texts[raw] = raw.decode("utf-8", "replace")
        return text

    def _put(self, index: int) -> None:
        value, known = self._stack[-1], len(self._memo)
        if type(value) not in _REFERABLE or index > known:
            raise RefusedDumpError("a reference that no pickler makes")
        if index == known:
            self._memo.append(value)
        else:
            self._memo[index] = value

    def _marked(self) -> list[Any]:
        """Takes the values since the last mark from the stack."""
        mark = self._marks.pop()
        items = self._stack[mark:]
        del self._stack[mark:]
        self._weight += len(items)
        return items

    def _set_items(self, items: Sequence[Any]) -> None:
        keys = items[::2]
        for key in keys:
            # A tuple of tuples can take ages to hash, and so can many numbers that collide.
            if type(key) is not str and not (type(key) is int and abs(key) < _LARGEST_KEY):
                raise RefusedDumpError("a key that is neither text nor a number")
        found = _exactly(self._stack[-1], dict)
        found.update(zip(keys, items[1::2], strict=True))
        if self._take(found):
            self._stack[-1] = None
            self._let_go()

    def _let_go(self) -> None:
        """Forget the last entry, once those before it are enough to refer to. Stack frames are shared by entries."""
        self._kept, self._weight = self._kept + self._weight, 0
        memo, first = self._memo, self._entry_memo
        self._entry_memo = len(memo)
        if self._kept <= _KEPT_WEIGHT:
            return
        for index in range(first, len(memo)):
            value = memo[index]
            if type(value) in _CONTAINERS and not (type(value) is dict and "filename" in value):
                memo[index] = None

    # Opcodes that dumps of torch hardly have. Each gets the bytes and its place, and returns the next place.

    def _skip_one(self, _: bytes, at: int) -> int:
        return at + 1

    def _skip_frame(self, _: bytes, at: int) -> int:
        return at + 8

    def _append(self, _: bytes, at: int) -> int:
        value = self._stack.pop()
        _exactly(self._stack[-1], list).append(value)
        self._weight += 1
        return at

    def _set_item(self, _: bytes, at: int) -> int:
        items = self._stack[-2:]
        del self._stack[-2:]
        self._weight += 1
        self._set_items(items)
        return at

    def _empty_dict(self, _: bytes, at: int) -> int:
        self._stack.append({})
        self._weight += 1
        return at

    def _tuple(self, data: bytes, at: int) -> int:
        count = {_TUPLE1: 1, _TUPLE2: 2, _TUPLE3: 3}.get(data[at - 1])
        if count is None:
            self._stack.append(tuple(self._marked()))
            return at
        items = tuple(self._stack[-count:])
        if len(items) < count:
            raise IndexError
        self._weight += count + 1
        self._stack[-count:] = [items]
        return at

    def _float(self, data: bytes, at: int) -> int:
        self._stack.append(struct.unpack_from(">d", data, at)[0])
        return at + 8

    def _long(self, data: bytes, at: int) -> int:
        size = data[at]
        if size > _MOST_NUMBER_BYTES:
            raise RefusedDumpError(f"a number of {size} bytes")
        self._stack.append(int.from_bytes(data[at + 1 : at + 1 + size], "little", signed=True))
        return at + 1 + size


def _exactly(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


_MOST_HEAD: Final = 24
"""Most bytes of an opcode with its fixed operands."""
_CONTAINERS: Final = (list, tuple, dict)
_REFERABLE: Final = (str, bytes, *_CONTAINERS)
(
    _BINGET, _LONG_BINGET, _BINPUT, _LONG_BINPUT, _MEMOIZE, _BININT1, _MARK, _EMPTY_LIST, _APPENDS, _SETITEMS, _STOP,
    _TUPLE1, _TUPLE2, _TUPLE3,
) = (
    op[0]
    for op in (
        pickle.BINGET, pickle.LONG_BINGET, pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE, pickle.BININT1,
        pickle.MARK, pickle.EMPTY_LIST, pickle.APPENDS, pickle.SETITEMS, pickle.STOP,
        pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3,
    )
)  # fmt: skip
_BYTES: Final = frozenset({pickle.SHORT_BINBYTES[0], pickle.BINBYTES[0], pickle.BINBYTES8[0]})
_TEXT_SIZES: Final = {
    pickle.BINUNICODE[0]: 4,
    pickle.SHORT_BINUNICODE[0]: 1,
    pickle.BINUNICODE8[0]: 8,
    pickle.SHORT_BINBYTES[0]: 1,
    pickle.BINBYTES[0]: 4,
    pickle.BINBYTES8[0]: 8,
}
"""Opcode of a text → the bytes of its length."""
_NUMBERS: Final = {pickle.BININT[0]: (4, True), pickle.BININT2[0]: (2, False)}
"""Opcode of a whole number → its bytes, and whether it has a sign."""
_CONSTANTS: Final = {
    pickle.NONE[0]: None,
    pickle.NEWTRUE[0]: True,
    pickle.NEWFALSE[0]: False,
    pickle.EMPTY_TUPLE[0]: (),
}
_RARE: Final[dict[int, Callable[[PlainPickle, bytes, int], int]]] = {
    pickle.PROTO[0]: PlainPickle._skip_one,  # noqa: SLF001 - the table of its own methods
    pickle.FRAME[0]: PlainPickle._skip_frame,  # noqa: SLF001
    pickle.APPEND[0]: PlainPickle._append,  # noqa: SLF001
    pickle.SETITEM[0]: PlainPickle._set_item,  # noqa: SLF001
    pickle.EMPTY_DICT[0]: PlainPickle._empty_dict,  # noqa: SLF001
    pickle.TUPLE[0]: PlainPickle._tuple,  # noqa: SLF001
    _TUPLE1: PlainPickle._tuple,  # noqa: SLF001
    _TUPLE2: PlainPickle._tuple,  # noqa: SLF001
    _TUPLE3: PlainPickle._tuple,  # noqa: SLF001
    pickle.BINFLOAT[0]: PlainPickle._float,  # noqa: SLF001
    pickle.LONG1[0]: PlainPickle._long,  # noqa: SLF001
}
