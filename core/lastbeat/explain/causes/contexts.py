"""Judges from the context in a line whether words report an event, or only mention it."""

import re
from typing import Final, Literal

from lastbeat.explain.causes import error_file
from lastbeat.explain.signals.error_types import UNKNOWN, traits_of
from lastbeat.model.error_type import ErrorTraits
from lastbeat.model.pattern import Pattern
from lastbeat.model.signal import CASCADE, CONFIRMATION, Signal

Weight = Literal["none", "weak", "full"]

_HEAD: Final = 200
"""Characters at a line's beginning that may state its level."""
# The first of these in a line is its level.
_LEVEL: Final = Pattern(
    r"(?P<info>\bNCCL (?:INFO|TRACE)\b|\bUCX {1,3}(?:DIAG|INFO|DEBUG|TRACE|REQ|DATA)\b|"
    # A logger may pass on another program's line, which has a level of its own.
    r"(?<![\w=\"\'-])(?:INFO|DEBUG|TRACE|Info|Debug)(?!: task )"
    r"(?![\]\s:|-]{1,4}(?:ERROR|FATAL|CRITICAL|WARNING)\b[ :])(?=[\]\s:|,-])|"
    r"^\[?[IDV]\d{3,4} \d\d:\d\d|"
    r"^.{0,40}?\[[ID]\] )|"
    r"(?P<warning>\bNCCL WARN\b|^\[W \w{1,40}\.cpp:|\w{0,60}Warning: |^\[?W\d{3,4} \d\d:\d\d|<warn>|: W [a-z]\w{1,30}/|"
    r"(?<![\w=\"\'-])(?:(?:WARNING|WARN|Warning)(?=[\]\s:|,-])|warning(?=[\]:|]| - )))|"
    r"(?P<error>(?<![\w-])(?:ERROR|FATAL|CRITICAL|Error|Fatal|FAILED)(?=[\]\s:|,-])|^\[?[EF]\d{3,4} \d\d:\d\d)"
)
_JSON_LEVEL: Final = Pattern(
    r"\"(?:level|severity|levelname|lvl)\"\s{0,3}:\s{0,3}\"(?P<level>[A-Za-z]{1,12})", re.IGNORECASE
)
_DOTS: Final = Pattern(r"^\s{0,8}[\w.-]{1,80} \.{4,}")
_DUMP: Final = Pattern(
    r"^\s{0,8}(?:[\w.]{0,60}(?:Namespace|Arguments|Config|Args|Settings)\(|\+{1,3} |"
    r"#(?!#\[error\])|//|>>> |\$ |frame #\d{1,4}: )|"
    # Source code.
    r"^\s{0,40}(?:raise \w[\w.]{0,80}(?:\(|\s*$)|except \w[\w.]{0,80}(?: as \w{1,20})?:\s{0,4}$)"
)
_ROW: Final = Pattern(r"^\s{0,20}\|.{1,400}\|\s{0,8}$")
_ITEM: Final = Pattern(r"^\s{0,20}[-*\u2022]\s{1,4}[\"'`*]{0,2}")
# A number that follows the name of a metric, never that of an exception.
_FIGURE: Final = Pattern(r"\s{0,20}[-+]?\d{1,12}\.\d{1,18}(?:e[-+]?\d{1,3})?\s{0,3}%?\s{0,20}$")
_PROSE: Final = Pattern(
    r"(?:^|[\s|{,\"'(\[])(?:prompt|output|response|completion|question|answer|generated|generation|instruction|caption|"
    r"text|content|example|explanation|query|user|assistant|decoded|prediction|target|reference|story|sample \d{1,9})"
    r"[\"'\]]{0,2}\s{0,3}(?:[:=|>]|->)",
    re.IGNORECASE,
)
_HYPOTHETICAL: Final = Pattern(
    r"\b(?:may|might|could|can|would|should|if|unless|in case of|to avoid|avoids?|prevents?|such as|like|e\.g\.|"
    r"for example|"
    r"simulat\w{0,6}|inject\w{0,6}|will result in|results? in|lead to|cause|causes|instead of|"
    r"handles?|handlers? for|enabled for|registered for|checks? for|"
    r"detect(?:s|ion of)|protects? against|tests? for)\b[^.;]{0,40}$",
    re.IGNORECASE,
)
_NOTHING_BEFORE: Final = Pattern(r"(?<![\w./-])(?:0|no|zero|without|none of the)\s{1,3}$", re.IGNORECASE)
_NOTHING_BEHIND: Final = Pattern(
    r"\W{0,3}(?:\w{1,12}\s{0,2}){0,2}\s{0,40}[:=]\s{0,4}(?:0|none|no|never|false|n/?a)\b(?! \w)", re.IGNORECASE
)
# Words about an earlier attempt, while another is under way.
_EARLIER: Final = Pattern(
    r"\b(?:previous|prior|earlier|last) (?:attempt|run|job|try|incarnation)\b[^.;]{0,60}$", re.IGNORECASE
)
_CONDITION: Final = Pattern(r"\b(?:if|unless|when|would|may|might|armed|enabled|configured|set to)\b", re.IGNORECASE)
# Trackers only observe training, so their troubles do not concern it.
_TOOL: Final = Pattern(
    r"\s{0,4}(?:\S{1,40} )?(?:wandb|mlflow|comet|neptune|tensorboard|clearml|swanlab|aim)\b[:. ]", re.IGNORECASE
)
RETRY: Final = Pattern(
    r"\bretry(?:ing|-?able)?\b|\bretries\b|\bretried\b|try(?:ing)? again|\breconnect|(?<!\d, )\battempt #?\d{1,5}\b|"
    r"(?<!loop)back(?:ing)?[- ]?off(?! (?:\w{1,8} )?restarting failed)|"
    r"fall(?:ing)?[- ]?back|\bskip(?:ping|ped)\b|\bcontinuing\b|\bwill continue\b|"
    # A parameter that will be ignored is none, nor is what Python says of destructors.
    r"(?<!will be )(?<!Exception )\bignor(?:ed|ing)\b|"
    r"\brecovered\b|\bresolved\b|"
    r"\bfrom scratch\b|\bstart(?:ing|ed)? (?:fresh|over|anew)\b|\btrying (?:another|the next)\b|\w{4,12}ing again\b|"
    r"\bre-?open(?:ing|ed)\b|\bdisabled\)|"
    r"[,;] (?:now )?using \w|\busing .{1,60} instead\b|\bdefault(?:s|ing) to\b|"
    r"non-?fatal|\bsuppressed\b|warn_and_continue|\btransient\b|temporarily|\bdisabling\b|thrown while requesting",
    re.IGNORECASE,
)
RETRY_WORDS: Final = (
    *("retr", "again", "reconnect", "attempt", "back", "skip", "ignor", "continu", "recover", "resolved", "fatal"),
    *("suppressed", "transient", "temporar", "disabling", "thrown", "using", "default"),
    *("scratch", "fresh", "start", "trying", "open", "disabled"),
)
"""Every match of :data:`RETRY` contains one of these words, which are found a hundred times as fast."""
_BEFORE_WORDS: Final = 16
"""Most characters between the start of a match and such a word."""
SPENT: Final = Pattern(
    r"max(?:imum)?[ _](?:number of )?(?:retries|attempts|restarts)|"
    r"(?:retries|attempts|restarts|retry count) (?:exceeded|exhausted|used up)|"
    r"exceeded (?:error |connection )?retry count|"
    r"giv(?:e|ing) up|after \d{1,5} (?:re)?(?:tries|attempts|retries)|no more (?:retries|attempts)|"
    r"not retry|without retry|"
    r"all (?:retries|attempts)|last attempt",
    re.IGNORECASE,
)
SPENT_WORDS: Final = ("retr", "tries", "attempt", "restart", "giv")
_ADVICE: Final = Pattern(r"[.!] {1,2}(?:try|consider) (?!again)|^\s{0,40}(?:solution|hint|suggestion|please)\b")
_ATTEMPT: Final = Pattern(
    r"(?:attempt|retry(?:ing)?|try|trial)\s{0,2}[#=:(]?\s{0,2}(?P<now>\d{1,5})\s{0,2}(?:/|of)\s{0,2}(?P<all>\d{1,5})",
    re.IGNORECASE,
)
_FAILS: Final = Pattern(
    r"\b(?:ERROR|FATAL|CRITICAL|[Ee]rror|[Ff]atal)\b\s{0,2}[:(\]](?!\s{0,4}[-+]?\d)|"
    # A level, with nothing but a space behind it.
    r"(?:^|[\d\])|])\s{0,4}(?:ERROR|FATAL|CRITICAL)\s{1,4}(?=[A-Za-z'\"])|^Error (?:in|while|when|during) |"
    r"\b(?:[Ff]ail(?:ed|ure)|FAILED|[Uu]nable to|[Cc]annot|[Cc]an't|[Cc]ould(?: not|n't)|not present|refused|"
    r"[Aa]bort(?:ed|ing)|[Nn]o such file|does(?: not|n't) exist|not found|[Ee]xiting|"
    r"invalid status code)\b"
)
_CROSS: Final = Pattern(r"\s{0,4}[\u2718\u2717\u2716\u274c] ")
_QUOTES: Final = "\"'`\u201c\u2018\u00ab"
# What is in quotation marks behind it is the message itself.
_STATED: Final = Pattern(r"(?:message|msg|err(?:or)?|reason|detail|exception)[\"']?\s{0,3}[:=]\s{0,3}$", re.IGNORECASE)
_CLOSING: Final = {"\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb"}


def level_of(text: str) -> str | None:
    """``info``, ``warning`` or ``error`` if the line states a level."""
    if text.startswith("{") and (stated := _JSON_LEVEL.search(text)) is not None:
        word = stated["level"].lower()
        return "error" if word[:4] in {"erro", "fata", "crit"} else "warning" if word[:4] == "warn" else "info"
    found = _LEVEL.search(text[:_HEAD])
    return found.lastgroup if found is not None else None


def retries(text: str) -> bool:
    """Whether the line reports that a failed operation is retried or skipped. Advice to people does not."""
    lower = text.lower()
    places = [place for word in RETRY_WORDS if (place := lower.find(word)) >= 0]
    found = RETRY.search(lower, max(0, min(places) - _BEFORE_WORDS)) if places else None
    if found is None or _ADVICE.search(lower, 0, found.start()) is not None:
        return False
    if any(map(lower.__contains__, SPENT_WORDS)) and SPENT.search(lower) is not None:
        return False
    return not is_last_attempt(text)


def is_last_attempt(text: str) -> bool:
    """Whether the line counts attempts, and this is the last."""
    attempt = _ATTEMPT.search(text)
    return attempt is not None and int(attempt["now"]) >= int(attempt["all"])


def weight_of(text: str, start: int, end: int, signal: Signal, *, exception: bool = False) -> Weight:
    """The weight of a match of ``signal`` from ``start`` to ``end`` of a line that does not end a traceback.
    ``exception`` says that the line looks like the last line of one.

    1. A dump of arguments or source code has no weight.
    2. A confirmation of an end counts fully, unless it is retried.
    3. Unless the line states the level of an error, words in a prompt, an answer or a hypothetical clause, and words
       about an earlier attempt have no weight. Nor has a count of zero, a metric, or an INFO line of a kind that is
       never announced calmly.
    4. Retries, troubles of trackers, table rows, list items, warnings, and words in quotation marks are weak.
    """
    if _DOTS.match(text) or (_DUMP.match(text) and signal.role != CONFIRMATION):
        return "none"
    if signal.role == CONFIRMATION:
        return "weak" if retries(text) else "full"
    level = "error" if exception else level_of(text)
    if level == "info" and "NCCL INFO" in text[:_HEAD]:
        return "weak" if is_last_attempt(text) else "none"
    before = text[max(0, start - 200) : start]
    if level != "error" and any(each.search(before) for each in (_PROSE, _HYPOTHETICAL, _EARLIER)):
        return "none"
    if level != "error" and (_CONDITION.search(text, start, end) or _NOTHING_BEFORE.search(before)):
        return "none"
    if not exception and _NOTHING_BEHIND.match(text, end):
        return "none"
    if signal.kind == "exception" and _FIGURE.match(text, end):
        return "none"
    is_announced_calmly = signal.role == CASCADE or _traits(signal).announced_calmly or _is_action(signal)
    if level == "info" and not is_announced_calmly:
        return "weak" if signal.verdict == "stalled" and signal.severity == "warning" else "none"
    if text.startswith("{") and level != "error":
        return "none"
    if retries(text) or (not exception and _TOOL.match(text)) or _is_listed(text, start, end):
        return "weak"
    # A handler of a signal may have any level. What CUDA refuses ends NCCL's call.
    any_level = is_announced_calmly or signal.severity == "critical" or signal.subsystem == "native_crash"
    any_level = any_level or "NCCL WARN Cuda failure" in text
    if level == "warning" and not any_level:
        return "weak"
    if level != "error" and start > 0 and _is_quoted(text, start, end):
        return "weak"
    return "full"


def states_failure(text: str) -> bool:
    """Whether the line says in any words that something failed, and that it is not tried again."""
    found = _FAILS.search(text) or _CROSS.match(text)
    if found is None or level_of(text) in {"info", "warning"} or retries(text):
        return False
    return weight_of(text, found.start(), found.end(), error_file.OTHER) != "none"


def is_hypothetical(text: str, start: int) -> bool:
    """Whether the words before ``start`` speak of what may happen, as in "stop if the"."""
    return _HYPOTHETICAL.search(text, max(0, start - 200), start) is not None


def _is_listed(text: str, start: int, end: int) -> bool:
    """Whether the line is a row of a table, or a list item of these words alone."""
    if _ROW.match(text) is not None:
        return True
    item = _ITEM.match(text)
    return item is not None and not text[item.end() : start].strip() and not text[end:].strip("\"'`* ")


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Whether the words are in quotation marks, or in bold type."""
    if text.endswith("**", 0, start) and text.startswith("**", end):
        return True
    begin = max(0, start - 80)
    for index in range(start - 1, begin - 1, -1):
        mark = text[index]
        if mark in _QUOTES:
            opened = index == 0 or text[index - 1] in " \t([{=:,|"
            stated = _STATED.search(text, max(0, index - 20), index) is not None
            return opened and not stated and _CLOSING.get(mark, mark) in text[end : end + 200]
    return text[start] in _QUOTES and text[start] in text[start + 1 : end + 200]


def states_a_value(signal: Signal, text: str) -> bool:
    """Whether a signal in a line with a nan is about that value, not about its consequence."""
    about = _traits(signal).about_values and signal.verdict is None and signal.severity != "critical"
    return about and level_of(text) != "error"


def _traits(signal: Signal) -> ErrorTraits:
    return traits_of(signal.error_type or UNKNOWN)


def _is_action(signal: Signal) -> bool:
    """Whether the words report a watchdog's action, which it may log at any level."""
    return signal.verdict == "timeout" and signal.severity == "critical"
